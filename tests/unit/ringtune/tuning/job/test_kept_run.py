# SPDX-License-Identifier: Apache-2.0
"""Runs that go into the machine's memory as they happen: also those that are ended or killed before a decision."""

from pathlib import Path

import pytest

from ringtune.system.console import Console
from ringtune.tuner import RunSettings, StudyStore
from ringtune.tuner.logs.records import Record, SampleRecord
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from ringtune.tuning.job.kept_run import KEEP_EVERY_S, KeptRun
from ringtune.tuning.job.memory import Memory
from tests.unit.tuner.recording import tune

KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}


class StandingClock:
    """A clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


def records_of(run_id: str, closes_after_windows: int | None = None) -> list[Record]:
    """Return the records of a run, an unfinished one if its job ends after so many windows."""
    disturbances = Disturbances(closes_after_windows=closes_after_windows)
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=disturbances, seed=1)
    return tune(target, settings=RunSettings(run_id=run_id, max_samples=6, key=KEY)).records


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """A memory without a file."""
    return Memory(StudyStore(tmp_path / "studies.jsonl"), Console(0))


def kept(memory: Memory) -> list[tuple[str, bool, int]]:
    """Return the runs in the file: id, whether it is finished, samples."""
    assert memory.store is not None
    return [(run.run_id, run.result is not None, len(run.samples)) for run in memory.store.contents().runs]


def samples_in(records: list[Record]) -> int:
    """Return the number of valid samples outside warmup and watch."""
    return sum(isinstance(r, SampleRecord) and r.valid and r.phase not in {"warmup", "watch"} for r in records)


def test_an_ended_job_leaves_its_samples(memory: Memory) -> None:
    """A job that ends before its decision has them in the file once its log is closed."""
    run = KeptRun(memory, StandingClock())
    records = records_of("a", 12)
    for record in records:
        run.write(record)

    run.close()
    run.close()

    assert [("a", False, samples_in(records))] == kept(memory)


def test_a_killed_job_has_left_what_it_measured_until_shortly_before(memory: Memory) -> None:
    """A killed job does not close its log: its first samples are written at once, others at intervals."""
    clock = StandingClock()
    run = KeptRun(memory, clock)
    counts = []
    for record in records_of("a", 12):
        run.write(record)
        counts.append(sum(samples for _, _, samples in kept(memory)))
        clock.now_s += KEEP_EVERY_S / 3

    written = sorted(set(counts))
    assert 0 == written[0]
    assert 3 <= len(written)
    assert samples_in(records_of("a", 12)) - 3 <= written[-1]


def test_a_decision_is_added_to_what_was_there(memory: Memory) -> None:
    """The file has one run then, which is finished, and no window twice."""
    run = KeptRun(memory)
    records = records_of("a")
    for record in records:
        run.write(record)
    run.decided()

    assert [("a", True, samples_in(records))] == kept(memory)
    assert memory.store is not None
    assert samples_in(records) + 3 == len(memory.store.path.read_bytes().splitlines())


def test_the_run_after_a_decision_is_another_one(memory: Memory) -> None:
    """A later search of the job that is not decided any more is kept beside the first."""
    run = KeptRun(memory, StandingClock())
    for record in records_of("a"):
        run.write(record)
    run.decided()
    for record in records_of("b", 12):
        run.write(record)
    run.close()

    assert [("a", True), ("b", False)] == [entry[:2] for entry in kept(memory)]


def test_a_file_that_cannot_be_written_costs_one_warning(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A folder stands in its place: it is tried once while the run goes on."""
    run = KeptRun(Memory(StudyStore(tmp_path), Console(0)), StandingClock())
    for record in records_of("a", 12):
        run.write(record)
    run.close()

    assert 1 == capfd.readouterr().err.count("cannot be kept")


def test_people_are_told_whose_samples_a_search_begins_with(memory: Memory, capfd: pytest.CaptureFixture[str]) -> None:
    """The line names the runs and the file."""
    run = KeptRun(memory, StandingClock())
    for record in records_of("a", 12):
        run.write(record)
    run.close()
    space = SyntheticTarget().space()

    memory.priors(KEY, space, 0)
    memory.priors({**KEY, "layout": [4]}, space, 0)

    same, grown = capfd.readouterr().err.splitlines()
    assert "ringtune autotune: the search begins with the samples of an unfinished run (" in same
    assert "with the samples of an unfinished run with 2 ranks in place of 4 (" in grown
