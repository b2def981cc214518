# SPDX-License-Identifier: Apache-2.0
"""Earlier runs of a log: those that a run goes on from, their share of its budget, and their join with it."""

from dataclasses import replace
from pathlib import Path

import pytest

from ringtune.tuner import RunSettings, open_log, read_log
from ringtune.tuner.logs.earlier import NOTHING_EARLIER, EarlierRuns, find_earlier, joined
from ringtune.tuner.testing import Disturbances, SyntheticTarget
from tests.unit.tuner.recording import tune

KEY = {"model": "m"}


def write(
    path: Path, run_id: str, *, ends_after: int | None = None, goes_on_from: EarlierRuns | None = NOTHING_EARLIER,
    key: dict[str, str] = KEY, max_samples: int = 6,
) -> None:  # fmt: skip
    """Append a run of launches, finished or ended after a number of windows."""
    settings = RunSettings(run_id=run_id, key=key, max_samples=max_samples, fixed_windows=True, warmup_steps=0)
    target = SyntheticTarget(disturbances=Disturbances(closes_after_windows=ends_after))
    log = open_log(path)
    tune(target, settings=replace(settings, goes_on_from=goes_on_from, adoption_pairs=2), log=log)
    log.close()


def found(path: Path) -> EarlierRuns:
    """Return the newest run of the question with those that it goes on from."""
    return find_earlier(path, KEY, SyntheticTarget().space().to_json(), 0)


def test_the_newest_run_of_the_question_is_found_beside_others(tmp_path: Path) -> None:
    """A log may be shared by several commands; runs before a fresh start and runs without a search are left out."""
    path = tmp_path / "log"
    write(path, "old")
    write(path, "new")
    write(path, "other", key={"model": "another"})
    write(path, "empty", ends_after=2)

    assert ("new",) == found(path).run_ids
    assert found(path).is_finished
    assert NOTHING_EARLIER == find_earlier(tmp_path / "none", KEY, {}, 0)
    assert NOTHING_EARLIER == find_earlier("/dev/zero", KEY, {}, 0)


def test_a_chain_of_runs_is_found_as_it_was_recorded(tmp_path: Path) -> None:
    """A finished run, the one that went on from it and was ended, and the next: each knows all before it."""
    path = tmp_path / "log"
    write(path, "rejected", ends_after=5)
    write(path, "first")
    write(path, "second", ends_after=4, goes_on_from=found(path), max_samples=9)

    assert ("first", "second") == found(path).run_ids
    assert not found(path).is_finished


def test_older_logs_join_the_unfinished_runs_before_a_run(tmp_path: Path) -> None:
    """A record without ids: the run went on from the unfinished ones directly before it."""
    path = tmp_path / "log"
    for run_id, ends_after in (("answered", None), ("a", 5), ("b", 6)):
        write(path, run_id, ends_after=ends_after, goes_on_from=None)

    assert ("a", "b") == found(path).run_ids


@pytest.mark.parametrize(
    ("budget", "has_room"),
    [
        ({"max_samples": 6}, False),
        ({"max_samples": 5}, False),
        ({"max_samples": 12}, True),
        ({}, True),
        ({"max_seconds": 1e6}, True),
        ({"max_seconds": 0.1}, False),
        ({"max_samples": 12, "max_steps": 3}, False),
        ({"max_samples": 5, "max_steps": 1000}, False),
    ],
)
def test_a_budget_leaves_room_if_it_is_larger_and_not_used_up(
    tmp_path: Path, budget: dict[str, float | None], *, has_room: bool
) -> None:
    """Six samples were the limit before, and six were taken; no limit is the largest one."""
    write(tmp_path / "log", "a")

    assert has_room == found(tmp_path / "log").leave_room_in(budget)


def test_finished_runs_count_against_steps_and_seconds_and_an_interrupted_one_does_not(tmp_path: Path) -> None:
    """A job that is interrupted again and again gets a verdict all the same; its samples count."""
    path = tmp_path / "log"
    write(path, "a")
    whole = found(path)
    write(path, "b", ends_after=5, goes_on_from=whole, max_samples=20)
    both = found(path)

    (log,) = (run for run in read_log(path).runs if run.run_id == "a")
    assert log.result is not None
    assert sum(sample.steps for sample in log.samples) == whole.steps == both.steps
    assert log.result.t_s == whole.seconds == both.seconds
    assert 6 == whole.searched < both.searched


def test_joined_runs_have_one_time_axis_and_the_trial_numbers_of_the_last_one(tmp_path: Path) -> None:
    """The numbers are those under which the run has taken the earlier samples over."""
    path = tmp_path / "log"
    write(path, "a")
    earlier = found(path)
    write(path, "b", goes_on_from=earlier, max_samples=9)
    runs = {run.run_id: run for run in read_log(path).runs}

    whole = joined(runs["b"], runs)

    times = [sample.t_s for sample in whole.samples]
    assert times == sorted(times)
    assert len(runs["a"].samples) + len(runs["b"].samples) == len(whole.samples)
    number_of = {str(sample.config): sample.trial_id for sample in whole.samples}
    assert len(number_of) == len({(str(sample.config), sample.trial_id) for sample in whole.samples})
    assert [sample.trial_id for sample in runs["b"].samples] == [
        sample.trial_id for sample in whole.samples[len(runs["a"].samples) :]
    ]
    assert runs["a"] is joined(runs["a"], runs)
