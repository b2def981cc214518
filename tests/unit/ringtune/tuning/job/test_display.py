# SPDX-License-Identifier: Apache-2.0
"""Text about a tuning run for people."""

import sys
import threading
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from ringtune.tuner import Phase
from ringtune.tuning.job.display import TuningDisplay, progress_text, result_text
from tests.unit.ringtune.captured_stderr import file_stderr, piped_stderr, read_until
from tests.unit.ringtune.tuning.job.news import BASELINE, PROGRESS, RESULT


def unindented(text: str) -> list[str]:
    """Return the lines that begin a message."""
    return [line for line in text.splitlines() if not line.startswith(" ")]


def test_the_live_line_has_phase_sample_throughput_and_time_left() -> None:
    """All that one wants to know while it runs, on one line."""
    text = progress_text(PROGRESS)

    assert "search | sample 3/20 | 123.4 MB/s | 45.6 steps/s | 79 s left" in text


def test_the_live_line_leaves_out_what_is_not_known() -> None:
    """Before the first window there is only a phase."""
    nothing = replace(PROGRESS, phase=Phase.WARMUP, samples_total=None, score_bytes_per_s=None, steps_per_s=None)

    assert progress_text(replace(nothing, seconds_left=None)).endswith("warmup")


def test_the_verdict_says_what_changed_what_it_cost_and_where_the_log_is() -> None:
    """The answer stands alone on the first line; its explanation is indented below."""
    text = result_text(RESULT, "tune.jsonl")

    first, *below = text.splitlines()
    assert "ringtune autotune: adopted: +12.3 % [9.8, 14.9]." == first
    assert all(line.startswith("  ") for line in below)
    assert "fusion_bytes 1 MiB (was 0 (off))" in text
    assert "cycle_ms" not in text
    assert "cost 1.5 s, paid back after 200 steps" in text
    assert "tune.jsonl" in text


def test_a_verdict_names_its_study_s_page_while_there_is_one_to_name(capfd: pytest.CaptureFixture[str]) -> None:
    """The first verdict has the URL, alone at the end of its line; the next one has none."""
    pages = ["http://127.0.0.1:8470/studies/ab"]
    display = TuningDisplay(None, study_page=lambda: pages.pop() if pages else None)

    display.finished(RESULT)
    display.finished(RESULT)

    lines = capfd.readouterr().err.splitlines()
    assert ["  This job's study: http://127.0.0.1:8470/studies/ab"] == [line for line in lines if "study" in line]


def test_a_verdict_of_several_sentences_has_its_answer_alone() -> None:
    """The best so far and the need of a verdict follow below."""
    verdict = "unfinished: the job ended in the search phase, after 20 steps, 9.9 s. Best so far: x 1 (was 2). Set Y"

    lines = result_text(replace(RESULT, adopted=False, config=BASELINE, verdict=verdict), None).splitlines()

    assert "ringtune autotune: unfinished: the job ended in the search phase, after 20 steps, 9.9 s." == lines[0]
    assert ["  Best so far: x 1 (was 2).", "  Set Y."] == lines[1:3]


def test_a_verdict_does_not_begin_within_a_progress_bar(tmp_path: Path) -> None:
    """Stderr goes into a file, and tqdm has left its line open; another text ended its line."""
    written = []
    for before in ("step 7/9 [###  ]", "a whole line\n", ""):
        path = tmp_path / f"{len(before)}.txt"
        path.write_text(before)
        with file_stderr(path):
            TuningDisplay(None).finished(RESULT)
        written.append(path.read_text())

    verdict = result_text(RESULT, None)
    assert [f"step 7/9 [###  ]\n{verdict}\n", f"a whole line\n{verdict}\n", f"{verdict}\n"] == written


def test_a_bar_of_tqdm_in_a_pipe_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipe does not show where it ends; the bars that are open do."""
    monkeypatch.setitem(sys.modules, "tqdm", SimpleNamespace(tqdm=SimpleNamespace(_instances={"a bar"})))

    with piped_stderr() as stderr:
        TuningDisplay(None).finished(RESULT)
        text = read_until(stderr, b"\n", times=2)

    assert text.startswith(b"\nringtune autotune: adopted")


def test_the_command_for_a_log_can_be_pasted_into_a_shell() -> None:
    """A path with a space is quoted, and its dots stay."""
    text = result_text(RESULT, "../dir a/log.jsonl")

    assert text.endswith("Log: ../dir a/log.jsonl (ringtune review '../dir a/log.jsonl').")


def test_a_kept_default_names_no_change() -> None:
    """Keeping default is a result as well."""
    kept = replace(RESULT, adopted=False, config=BASELINE, verdict="keeping default: no gain shown", payback_steps=None)

    text = result_text(replace(kept, cost_s=-2.0), None)

    assert "keeping default: no gain shown." in text
    assert "Now in force" not in text
    assert "cost no time" in text
    assert "gained" not in text


def test_without_a_terminal_lines_are_rare(capfd: pytest.CaptureFixture[str]) -> None:
    """A thousand updates in a moment are one line in a log file; the verdict always comes."""
    display = TuningDisplay(None)

    for _ in range(1000):
        display.progress(PROGRESS)
    display.finished(RESULT)

    lines = unindented(capfd.readouterr().err)
    assert 2 == len(lines)
    assert "adopted" in lines[1]


def test_without_a_terminal_a_line_comes_though_no_window_ends() -> None:
    """A slow window gets a line every few seconds with the state of the run and its age."""
    display = TuningDisplay(None, plain_interval_s=0.02)

    with piped_stderr() as stderr:
        display.progress(PROGRESS)
        lines = read_until(stderr, b"\n", times=4).decode().splitlines()
        display.close()

    assert progress_text(PROGRESS) == lines[0]
    assert all(line.startswith(f"{progress_text(PROGRESS)} | unchanged for ") for line in lines[1:4])


def test_a_warning_does_not_end_the_plain_lines() -> None:
    """The run goes on, and so do its lines."""
    display = TuningDisplay(None, plain_interval_s=0.02)

    with piped_stderr() as stderr:
        display.progress(PROGRESS)
        display.warned("the disk is full")
        seen = read_until(stderr, b"unchanged", times=2).decode()
        display.close()

    assert seen.index("the disk is full") < seen.rindex("unchanged")


def test_after_the_verdict_no_line_and_no_thread_is_left(capfd: pytest.CaptureFixture[str]) -> None:
    """The verdict is the last word on a run."""
    threads = set(threading.enumerate())
    display = TuningDisplay(None, plain_interval_s=0.001)
    display.progress(PROGRESS)

    display.finished(RESULT)
    display.close()

    assert threads == set(threading.enumerate())
    assert "adopted" in unindented(capfd.readouterr().err)[-1]


def test_a_decision_that_is_watched_is_no_news(capfd: pytest.CaptureFixture[str]) -> None:
    """A job may be watched for weeks: its progress is not shown."""
    display = TuningDisplay(None)

    display.progress(replace(PROGRESS, phase=Phase.WATCH))

    assert "" == capfd.readouterr().err


def test_a_later_search_is_shown_as_the_first_one_was(capfd: pytest.CaptureFixture[str]) -> None:
    """After a drift the tuner searches again, and people see it."""
    display = TuningDisplay(None)
    display.finished(RESULT)
    capfd.readouterr()

    display.progress(PROGRESS)
    display.finished(RESULT)

    lines = unindented(capfd.readouterr().err)
    assert [True, False] == ["sample 3/20" in line for line in lines]
    assert "adopted" in lines[1]
