# SPDX-License-Identifier: Apache-2.0
"""Tests of a machine's memory: runs, finished or not, also where many write and the disk is full."""

import fcntl
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.tuner import RunSettings
from ringtune.tuner.logs.store import MAX_FILE_BYTES, KeepingLog, StudyStore
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from tests.unit.full_disk import no_room_beyond
from tests.unit.tuner.recording import tune


def kept_run(run_id: str, disturbances: Disturbances | None = None) -> KeepingLog:
    """Return the log of a run from the poor baseline."""
    log = KeepingLog()
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=disturbances, seed=1)
    tune(target, settings=RunSettings(run_id=run_id, max_samples=6, key={"model": "m"}), log=log)
    return log


@pytest.fixture
def store(tmp_path: Path) -> StudyStore:
    """A store whose folder is not there yet."""
    return StudyStore(tmp_path / "cache" / "studies.jsonl")


def test_before_the_first_run_there_is_none(store: StudyStore) -> None:
    """No file is no error."""
    assert store.runs() == ()


def test_a_finished_run_is_remembered_without_its_warmup(store: StudyStore) -> None:
    """Question, samples, decision."""
    store.keep(kept_run("a").finished_run())

    (run,) = store.runs()

    assert run.run is not None
    assert run.run.key == {"model": "m"}
    assert run.result is not None
    assert run.adoption is not None
    assert {sample.phase for sample in run.samples} == {"baseline", "search", "adoption"}
    assert len({sample.trial_id for sample in run.samples}) == 7


UNFINISHED = Disturbances(closes_after_windows=12)


def test_an_unfinished_run_keeps_its_samples(store: StudyStore) -> None:
    """An unfinished run is no finished one, and its samples are there for the next job."""
    log = kept_run("a", UNFINISHED)
    store.keep(log.unfinished_run())

    (run,) = store.contents().runs

    assert log.finished_run() == ()
    assert store.runs() == ()
    assert run.result is None
    assert {"baseline", "search"} == {sample.phase for sample in run.samples}


def test_a_run_that_measured_its_baseline_alone_is_not_kept() -> None:
    """A baseline alone is no knowledge of other configs."""
    assert kept_run("a", Disturbances(closes_after_windows=8)).unfinished_run() == ()


def test_a_run_is_written_part_by_part(store: StudyStore) -> None:
    """Each call adds the new records; in the end the file has every record once."""
    records = kept_run("a").finished_run()

    written = store.keep(records[:4])
    store.keep(kept_run("b", UNFINISHED).unfinished_run())
    written = store.keep(records[:9], written)
    store.keep(records, written)

    (run,) = store.runs()
    assert len(records) == len(run.samples) + 3
    assert len(records) == sum(b'"a"' in line for line in store.path.read_bytes().splitlines())


def test_a_run_whose_file_was_removed_is_written_from_its_beginning(store: StudyStore) -> None:
    """The user may delete the file at any time, and another job may replace it."""
    records = kept_run("a").finished_run()
    written = store.keep(records[:5])
    store.path.rename(store.path.with_suffix(".old"))
    store.keep(kept_run("b").finished_run())

    store.keep(records, written)

    assert [len(records) - 3] * 2 == [len(run.samples) for run in store.runs()]


def test_a_run_that_was_written_twice_has_each_window_once(store: StudyStore) -> None:
    """A part of it may have outlived the replacement of the file."""
    records = kept_run("a").finished_run()

    store.keep(records)
    store.keep(records)

    (run,) = store.runs()
    assert len(records) - 3 == len(run.samples)


def test_unfinished_runs_do_not_push_finished_ones_out(store: StudyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred short trials leave the decision of a long job in place."""
    monkeypatch.setattr("ringtune.tuner.logs.store.MAX_FILE_BYTES", 50_000)
    store.keep(kept_run("decided").finished_run())
    records = kept_run("trial", UNFINISHED).unfinished_run()
    for number in range(100):
        store.keep([replace(record, run_id=f"trial-{number}") for record in records])

    runs = store.contents().runs

    assert 50_000 >= store.path.stat().st_size
    assert "decided" in [run.run_id for run in runs]
    assert "trial-99" == runs[-1].run_id
    assert 2 < len(runs) < 100


def test_a_child_that_was_forked_meanwhile_does_not_keep_the_lock(
    store: StudyStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A forked child shares the open file for as long as it lives; a duplicate of the descriptor does as well."""
    inherited: list[int] = []
    write = os.write

    def write_beside_a_fork(descriptor: int, data: bytes) -> int:
        inherited.append(os.dup(descriptor))
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", write_beside_a_fork)

    store.keep(kept_run("a").finished_run())

    assert 1 == len(inherited)
    with store.path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(inherited[0])


def _keep_several(path: Path, name: str, count: int) -> None:
    records = kept_run(name).finished_run()
    for _ in range(count):
        StudyStore(path).keep(records)


def test_jobs_that_end_at_the_same_time_lose_nothing(store: StudyStore) -> None:
    """Four processes, each with a run of its own, over and over: every line is whole."""
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_keep_several, args=(store.path, f"w{number}", 10)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)

    assert [writer.exitcode for writer in writers] == [0] * 4
    runs = store.runs()
    assert sorted(run.run_id for run in runs) == ["w0", "w1", "w2", "w3"]
    assert len({len(run.samples) for run in runs}) == 1


def test_a_file_that_grows_too_large_keeps_its_newest_runs(store: StudyStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go; the file stays within its limit, and the newest is there."""
    size = len(b"x") * 100_000
    assert size < MAX_FILE_BYTES
    monkeypatch.setattr("ringtune.tuner.logs.store.MAX_FILE_BYTES", size)
    names = [f"run-{number}" for number in range(12)]
    for name in names:
        store.keep(kept_run(name).finished_run())

    kept = [run.run_id for run in store.runs()]

    assert store.path.stat().st_size <= size
    assert 1 < len(kept) < len(names)
    assert kept == names[-len(kept) :]
    assert list(store.path.parent.iterdir()) == [store.path]


def test_a_full_disk_leaves_what_was_there(store: StudyStore) -> None:
    """A run that fits in part is taken back."""
    store.keep(kept_run("a").finished_run())
    size = store.path.stat().st_size

    with no_room_beyond(size + 1000), pytest.raises(OSError, match=r"no room|too large"):
        store.keep(kept_run("b").finished_run())

    assert store.path.stat().st_size == size
    assert [run.run_id for run in store.runs()] == ["a"]
