# SPDX-License-Identifier: Apache-2.0
"""Tests of reading logs of any size in bounded memory."""

import subprocess
import sys
from pathlib import Path

import pytest

from ringtune.tuner.review import kept_runs, review_log
from tests.unit.tuner.review.logs import logged

HUGE_BYTES = 100 << 20
MAX_RESIDENT_KIB = 400 << 10
REVIEW = """
import resource, sys
from ringtune.tuner.review import review_log
print(review_log(sys.argv[1]).runs[-1].verdict)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_of_a_huge_run_the_first_windows_are_kept_and_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest is counted; the decision at its end is there."""
    path = tmp_path / "x.jsonl"
    result = logged(path, max_samples=6).result
    monkeypatch.setattr(kept_runs, "MAX_KEPT_BYTES", path.stat().st_size // 2)
    whole = path.read_text().count('"type":"sample"')

    (run,) = review_log(path).runs

    assert 0 < len(run.tried) < whole
    assert whole == len(run.tried) + run.windows_left_out
    assert (result.verdict, result.config) == (run.verdict, run.chosen)


def test_of_many_runs_the_newest_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older ones are counted."""
    path = tmp_path / "x.jsonl"
    for name in "abcd":
        logged(path, name, max_samples=2, warmup_steps=0, adoption_pairs=2)
    monkeypatch.setattr(kept_runs, "MAX_KEPT_BYTES", path.stat().st_size * 5 // 8)

    review = review_log(path)

    assert ["c", "d"] == [run.run_id for run in review.runs]
    assert 2 == review.runs_left_out
    assert all(run.is_complete and not run.windows_left_out for run in review.runs)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("runs", [1, 5000])
def test_a_log_of_100_mb_takes_bounded_memory(tmp_path: Path, runs: int) -> None:
    """One endless run, or thousands: below 400 MiB, Python and numpy included."""
    small, huge = tmp_path / "small.jsonl", tmp_path / "huge.jsonl"
    logged(small, "run-0")
    lines = small.read_bytes().splitlines(keepends=True)
    first, middle, last = lines[:1], lines[1:-2], lines[-2:]
    repeats = HUGE_BYTES // (runs * sum(map(len, middle))) + 1
    with huge.open("wb") as stream:
        for number in range(runs):
            run = b"".join([*first, *(middle * repeats), *last]).replace(b"run-0", b"run-%d" % number)
            stream.write(run)
    assert huge.stat().st_size >= HUGE_BYTES

    answer = subprocess.run([sys.executable, "-c", REVIEW, huge], capture_output=True, text=True, check=True)

    verdict, resident_kib = answer.stdout.splitlines()
    assert "faster" in verdict
    assert int(resident_kib) < MAX_RESIDENT_KIB
