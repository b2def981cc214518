# SPDX-License-Identifier: Apache-2.0
"""Tests of the review in a terminal."""

import io
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from ringtune.tuner import RunSettings, make_designer, open_log
from ringtune.tuner.review import (
    advice,
    analyse,
    comparison,
    output_console,
    render_comparison,
    render_review,
    review_log,
    words,
)
from ringtune.tuner.review.analysis import RepeatNoise
from ringtune.tuner.review.surrogate import SpeedUpInterval
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, poor_baseline
from tests.unit.tuner.recording import tune
from tests.unit.tuner.review.logs import HOROVOD


def shown(path: Path) -> str:
    """Return the output on a wide terminal."""
    console = Console(file=io.StringIO(), width=200, color_system=None)
    render_review(review_log(path), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def logged(path: Path, target: SyntheticTarget, run_id: str = "a") -> None:
    """Append a run to a log."""
    log = open_log(path)
    tune(target, settings=RunSettings(run_id=run_id, seed=1), log=log)
    log.close()


def test_the_verdict_comes_first_then_cost_then_the_configs(tmp_path: Path) -> None:
    """A newcomer reads from the top."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(baseline=poor_baseline(), seed=1))

    text = shown(path)

    order = [
        "adopted: +", "Speed: ", "Tuning ", "Settings to paste", "RINGTUNE_FUSION_BYTES=", "parameter", "0 (off)",
        "Convergence: ", "median", "effect", "Model: ", "Noise: ", "Drift: ",
    ]  # fmt: skip
    positions = [text.index(word) for word in order]
    assert sorted(positions) == positions
    assert "Tuning cost no time" in text
    assert "gained" not in text
    assert re.search(r"Speed: \S+ steps/s under the baseline, \S+ steps/s under the adopted config", text)


def test_a_cost_comes_with_its_payback(tmp_path: Path) -> None:
    """The cost of trying from the built-in default is shown with the time after which the winner brings it back."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(seed=0))

    assert re.search(r"Tuning cost \d+\.\d s; it pays back after [\d,]+ steps", shown(path))


def test_keeping_the_default_says_why(tmp_path: Path) -> None:
    """The reason stands beside the words."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(surface=flat_surface))

    assert "keeping default: " in shown(path)


def test_earlier_runs_of_a_log_stand_side_by_side(tmp_path: Path) -> None:
    """Before the newest, which is shown in full."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(surface=flat_surface), "first")
    logged(path, SyntheticTarget(baseline=poor_baseline(), seed=1), "second")

    text = shown(path)

    assert re.search(r"^verdict +keeping default +adopted *$", text, re.MULTILINE)
    assert re.search(r"^speed-up +(-|none shown \(.*?\)) +\+\S+ % \(\+\S+ % to \+\S+ %, 90 %\) *$", text, re.MULTILINE)
    assert text.index("first") < text.index("second") < text.index("adopted: +")
    assert 1 == len(re.findall(r"^Run [-\d]{10} [:\d]{5}, second", text, re.MULTILINE))
    assert not re.search(r"^Run .*first", text, re.MULTILINE)


def test_several_logs_stand_side_by_side(tmp_path: Path) -> None:
    """The newest run of each; a log without one is named."""
    ours, horovod, empty = tmp_path / "ours.jsonl", tmp_path / "h.csv", tmp_path / "empty"
    logged(ours, SyntheticTarget(baseline=poor_baseline(), seed=1))
    horovod.write_text(HOROVOD)
    empty.write_text("")
    console = Console(file=io.StringIO(), width=250, color_system=None)

    render_comparison([review_log(path) for path in (ours, horovod, empty)], console)

    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert re.search(r"^verdict +adopted +no verdict *$", text, re.MULTILINE)
    assert re.search(r"^cycle_ms +\S+ ms +5.1 ms *$", text, re.MULTILINE)
    assert f"{empty}: no record of a tuning run" in text


def test_runs_that_measured_nothing_are_left_out(tmp_path: Path) -> None:
    """A job that crashed at once is no run to compare with, also where it is the newest; it is counted."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(surface=flat_surface), "told")
    begun = next(line for line in path.read_text().splitlines() if '"type": "run"' in line or '"type":"run"' in line)
    with path.open("a") as log:
        log.write(json.dumps({**json.loads(begun), "run_id": "crashed"}) + "\n")

    text = shown(path)

    assert "keeping default" in text
    assert "crashed" not in text
    assert "Left out: 1 run of this log without a measurement" in text


def test_what_mattered_most_is_not_known_where_no_row_is(tmp_path: Path) -> None:
    """A large effect with an interval over zero is no finding."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(baseline=poor_baseline(), seed=1))
    (run,) = review_log(path).runs
    analysis = analyse(run)
    unknown = tuple(replace(item, effect=SpeedUpInterval(0.348, -0.19, 1.25)) for item in analysis.sensitivities)

    sure, unsure = (
        dict(comparison([("a", run, each)]))["mattered most"]
        for each in (analysis, replace(analysis, sensitivities=unknown))
    )

    assert "fusion_bytes" in sure[0]
    assert ("not known",) == unsure


def test_nothing_is_cut_where_the_output_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipe has no width: every cell is whole, whatever COLUMNS says."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(seed=0))

    render_review(review_log(path), output_console())

    text = capsys.readouterr().out
    assert "\N{HORIZONTAL ELLIPSIS}" not in text
    assert "expected" in text


def test_a_narrow_terminal_gives_up_what_was_expected_first(tmp_path: Path) -> None:
    """The speed-up matters more."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(seed=0))
    wide, narrow = (Console(file=io.StringIO(), width=width, color_system=None) for width in (200, 60))

    for console in (wide, narrow):
        render_review(review_log(path), console)

    shown_in = [console.file.getvalue() for console in (wide, narrow) if isinstance(console.file, io.StringIO)]
    assert [True, False] == [bool(re.search(r"median +expected", text)) for text in shown_in]
    assert "speed-up" in shown_in[1]


def test_an_old_log_s_interval_is_shown_with_the_level_it_had(tmp_path: Path) -> None:
    """Its record has no level: it was 95 %."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(baseline=poor_baseline(), seed=1))
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({k: v for k, v in line.items() if k != "ci_level"}) + "\n" for line in lines))
    (run,) = review_log(path).runs

    speedup = dict(comparison([("a", run, analyse(run))]))["speed-up"][0]

    assert speedup.endswith(", 95 %)")


def test_bad_lines_are_listed_by_number(tmp_path: Path) -> None:
    """Bad lines beyond ten are counted."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(surface=flat_surface))
    path.write_text("nonsense\n" * 15 + path.read_text())

    text = shown(path)

    assert "line 10: not read: not JSON" in text
    assert "and 5 more lines not read" in text


def test_a_file_of_something_else_is_called_so_once(tmp_path: Path) -> None:
    """A script instead of a log: its lines are not listed one by one; an empty file may yet become a log."""
    script, empty = tmp_path / "train.py", tmp_path / "empty"
    script.write_text("import torch\n" * 15)
    empty.write_text("")

    assert f"{script}: this is no tuning log; give the file that AUTOTUNE_LOG named" == shown(script).strip()
    assert f"{empty}: no record of a tuning run" == shown(empty).strip()


def test_only_parameters_of_the_job_s_own_space_are_shown(tmp_path: Path) -> None:
    """Fixed ones, such as those of NCCL on a job without GPUs, could not act."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(baseline=poor_baseline(), seed=1))
    (run,) = review_log(path).runs
    assert run.baseline is not None
    fixed = {name for name in run.baseline if name not in ("fusion_bytes", "cycle_ms", "response_cache", "chunk_bytes")}

    text = shown(path)

    assert fixed
    assert [] == [name for name in fixed if name in text]
    assert "cycle_ms" in text


def test_median_and_expectation_have_one_unit(tmp_path: Path) -> None:
    """The designer's expectation can be compared with the measurement: both are milliseconds."""
    path = tmp_path / "x.jsonl"
    log = open_log(path)
    target = SyntheticTarget(baseline=poor_baseline(), seed=1)
    tune(target, make_designer("gp", target.space(), 0), RunSettings(), log)
    log.close()
    (run,) = review_log(path).runs
    searched = [trial for trial in analyse(run).trials if trial.expected_score is not None and trial.windows > 1]

    assert "MB/s" not in shown(path).replace("MB/s left", "")
    for trial in searched:
        measured, expected = words.speed(run, trial.log_time), words.expected(run, trial)
        assert pytest.approx(float(measured.removesuffix(" ms")), rel=0.5) == float(expected.removesuffix(" ms"))
    assert searched


def test_the_first_sentence_of_a_verdict_stands_alone(tmp_path: Path) -> None:
    """Its explanation follows below."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(closes_after_windows=12), seed=1))

    lines = shown(path).splitlines()

    assert re.fullmatch(r"unfinished: the job ended in the search phase of tuning, after \d+ steps, \S+ s *", lines[1])
    assert lines[2].startswith("Best so far: ")


def test_a_noisy_run_is_not_called_flat(tmp_path: Path) -> None:
    """Amid noise of a fifth a gain cannot be excluded."""
    path = tmp_path / "x.jsonl"
    logged(path, SyntheticTarget(surface=flat_surface, seed=1))
    (run,) = review_log(path).runs
    quiet = replace(analyse(run), gap=SpeedUpInterval(0.0, 0.0, 0.0))

    noisy = advice(run, replace(quiet, noise=RepeatNoise(0.195, 0.19)))

    assert "no tried config is expected to beat the default: leave AUTOTUNE out of this job" in advice(run, quiet)
    assert [] == [sentence for sentence in noisy if "leave AUTOTUNE out" in sentence]
    assert any("the noise of 19.5 % hides gains below 14.0 %" in sentence for sentence in noisy), noisy


def test_a_log_cannot_steer_the_terminal(tmp_path: Path) -> None:
    """Control characters and markup from the file are shown as text."""
    path = tmp_path / "x.jsonl"
    verdict = "keeping default: [bold red]\x1b]0;gotcha\x07[/]\ud800\u202e"
    record = {"type": "adoption", "t_s": 1, "run_id": "a[/]", "pairs": [], "verdict": verdict}
    path.write_text(json.dumps({**record, "speedup": None, "ci_low": None, "ci_high": None}) + "\n")

    text = shown(path)

    assert "keeping default: [bold red]?]0;gotcha?[/]??" in text
    assert "Run a[/]" in text
