# SPDX-License-Identifier: Apache-2.0
"""Tests of reading the log: torn at any byte, foreign, huge, and of finding an unfinished run."""

from pathlib import Path
from typing import Any

import pytest

from ringtune.tuner import RunSettings, default_config, find_unfinished, open_log, read_log, search_space
from ringtune.tuner.logs.reader import MAX_BAD_LINES, MAX_LINE_BYTES
from ringtune.tuner.testing import Disturbances, SyntheticTarget
from tests.unit.tuner.recording import tune

KEY = {"model": "m"}
SPACE = search_space({}, default_config()).to_json()


def write_run(path: Path, run_id: str = "a", closes_after_windows: int | None = None, **settings: Any) -> None:
    """Append a small run to a log."""
    target = SyntheticTarget(disturbances=Disturbances(closes_after_windows=closes_after_windows))
    log = open_log(path)
    options: dict[str, Any] = {"max_samples": 3, "warmup_steps": 0, "adoption_pairs": 2, "key": KEY, **settings}
    tune(target, settings=RunSettings(run_id=run_id, **options), log=log)
    log.close()


def count_records(path: Path) -> int:
    """Return the number of records that can be read."""
    runs = read_log(path).runs
    singles = sum((run.run is not None) + (run.adoption is not None) + (run.result is not None) for run in runs)
    return singles + sum(len(run.samples) + len(run.suggestions) for run in runs)


def test_torn_at_every_byte_of_its_tail_it_still_reads(tmp_path: Path) -> None:
    """A log killed at any byte has all its whole lines, and at most one bad one."""
    whole, torn = tmp_path / "whole.jsonl", tmp_path / "torn.jsonl"
    write_run(whole)
    lines = whole.read_bytes().splitlines(keepends=True)
    data = b"".join([lines[0], *lines[-4:]])
    tail = len(lines[0])

    for cut in range(tail, len(data) + 1):
        torn.write_bytes(data[:cut])
        complete = data[:cut].count(b"\n") + (cut < len(data) and data[cut : cut + 1] == b"\n")
        is_torn = data[cut - 1 : cut] != b"\n" and data[cut : cut + 1] != b"\n"

        contents = read_log(torn)
        assert complete == count_records(torn), cut
        assert [complete + 1] * is_torn == [bad.number for bad in contents.bad_lines], cut


def test_foreign_lines_are_reported_by_number_and_the_rest_is_read(tmp_path: Path) -> None:
    """Text, other JSON, binary and empty lines do no harm."""
    path = tmp_path / "tuning.jsonl"
    write_run(path)
    before = count_records(path)
    with path.open("ab") as stream:
        stream.write(b'hello\n{"type":"job"}\n\n\xff\xfe\x00\n[1]\n' + b"[" * 100_000 + b"\n")
    first = path.read_bytes().count(b"\n") - 5

    write_run(path, "b")
    contents = read_log(path)

    assert [first, first + 1, first + 3, first + 4, first + 5] == [bad.number for bad in contents.bad_lines]
    assert 2 * before == count_records(path)


def test_a_line_without_end_takes_no_memory(tmp_path: Path) -> None:
    """A huge line is one bad line, and the lines after it are read."""
    path = tmp_path / "tuning.jsonl"
    write_run(path)
    path.write_bytes(b"x" * (3 * MAX_LINE_BYTES + 5) + b"\n" + path.read_bytes())

    contents = read_log(path)

    assert [(1, f"longer than {MAX_LINE_BYTES} bytes")] == [(bad.number, bad.reason) for bad in contents.bad_lines]
    assert 1 == len(contents.runs)


def test_bad_lines_are_kept_up_to_a_bound(tmp_path: Path) -> None:
    """A foreign file of many lines is counted, not collected."""
    path = tmp_path / "tuning.jsonl"
    path.write_text("x\n" * (MAX_BAD_LINES + 10))

    contents = read_log(path)

    assert (MAX_BAD_LINES, MAX_BAD_LINES + 10) == (len(contents.bad_lines), contents.bad_line_count)


def test_an_unfinished_run_gives_its_trials(tmp_path: Path) -> None:
    """Two suggestions were measured before the job ended."""
    path = tmp_path / "tuning.jsonl"
    write_run(path, closes_after_windows=5)

    trials = find_unfinished(path, KEY, SPACE, 0)

    assert [1, 2] == [trial.trial_id for trial in trials]
    assert all(len(trial.log_step_ms) == 1 for trial in trials)


@pytest.mark.parametrize(
    ("key", "space", "seed"),
    [
        ({"model": "other"}, SPACE, 0),
        (KEY, search_space({"cycle_ms": 1.0}, default_config()).to_json(), 0),
        (KEY, SPACE, 1),
    ],
)
def test_another_question_is_not_resumed(tmp_path: Path, key: dict[str, str], space: dict[str, Any], seed: int) -> None:
    """Key, space and seed must be the same."""
    path = tmp_path / "tuning.jsonl"
    write_run(path, closes_after_windows=5)

    assert () == find_unfinished(path, key, space, seed)


def test_a_finished_run_is_not_resumed(tmp_path: Path) -> None:
    """A finished run's answer stands."""
    path = tmp_path / "tuning.jsonl"
    write_run(path, closes_after_windows=5)
    write_run(path, "b")

    assert () == find_unfinished(path, KEY, SPACE, 0)


@pytest.mark.parametrize("path", [None, "/dev/zero", "/nowhere/none.jsonl"])
def test_what_is_no_file_has_no_unfinished_run(path: str | None) -> None:
    """No log, a device that would be read for ever, and the file of a job's first run."""
    assert () == find_unfinished(path, KEY, SPACE, 0)


def test_a_missing_file_cannot_be_read(tmp_path: Path) -> None:
    """Reading on purpose is another matter."""
    with pytest.raises(FileNotFoundError):
        read_log(tmp_path / "none.jsonl")
