# SPDX-License-Identifier: Apache-2.0
"""Pace of a budget, and runs of the policy that decide within steps of a job, or seconds."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ringtune.tuner import Phase, RunSettings, Window, WindowSpec, make_designer, sample_limit
from ringtune.tuner.logs.records import RunRecord
from ringtune.tuner.policy.pace import Pace
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, poor_baseline
from tests.unit.tuner.recording import Outcome, samples, tune

BETWEEN_STEPS = 30


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        """Begin at zero."""
        self.now_s = 0.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now_s


class NumberedJob(SyntheticTarget):
    """A job that numbers its steps, and takes many of them between two windows."""

    steps = 0

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows after so many steps that are in none."""
        for window in super().windows(spec):
            self.now_s += 0.02 * BETWEEN_STEPS
            self.steps += BETWEEN_STEPS + spec.settle_steps + len(window.step_ms)
            yield replace(window, last_step=self.steps)


class Launches(SyntheticTarget):
    """Windows of as many steps as a launch has, whatever is asked for."""

    STEPS = 40
    launched = 0

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield a window per launch."""
        for window in super().windows(replace(spec, steps=self.STEPS)):
            self.launched += len(window.step_ms)
            yield replace(window, last_step=self.launched)


def test_before_the_first_window_there_is_no_pace() -> None:
    """A step counts as one of the job."""
    pace = Pace(Clock())

    assert (None, 1.0, 0) == (pace.seconds_per_step, pace.job_steps_per_step, pace.job_steps)


def test_what_lies_between_windows_counts_and_one_pause_for_little() -> None:
    """10 steps in 2 s each, thinking included; a minute's pause does not move the median."""
    clock = Clock()
    pace = Pace(clock)
    for seconds in (2.0, 2.0, 60.0):
        clock.now_s += seconds
        pace.note(10, None)

    assert 0.2 == pytest.approx(pace.seconds_per_step)
    assert (1.0, 30) == (pace.job_steps_per_step, pace.job_steps)


def test_the_pace_follows_the_job() -> None:
    """Once the newest windows are all slower, they alone say how long a step takes."""
    clock = Clock()
    pace = Pace(clock)
    for seconds in [1.0] * POLICY.pace_windows + [3.0] * POLICY.pace_windows:
        clock.now_s += seconds
        pace.note(10, None)

    assert 0.3 == pytest.approx(pace.seconds_per_step)


def test_steps_of_the_job_count_where_it_numbers_them() -> None:
    """Unmeasured steps go by at the measured pace: of 40 steps 10 were measured."""
    clock = Clock()
    pace = Pace(clock)
    for last_step in (1000, 1040, 1080):
        clock.now_s += 4.0
        pace.note(10, last_step)
    clock.now_s += 2.0

    assert 4.0 == pytest.approx(pace.job_steps_per_step)
    assert 10 + 40 + 40 + 20 == pytest.approx(pace.job_steps)


def test_a_launch_that_failed_lasts_until_the_next_that_did_not() -> None:
    """A failed launch took no steps, but seconds."""
    clock = Clock()
    pace = Pace(clock)
    for last_step, steps in ((5, 5), (5, 2), (10, 5)):
        clock.now_s += 10.0
        pace.note(steps, last_step)

    assert (10.0 / 5 + 20.0 / 5) / 2 == pytest.approx(pace.seconds_per_step)
    assert 1.0 == pace.job_steps_per_step


@pytest.mark.parametrize(
    ("limits", "expected"),
    [((None, None, None), 20), ((None, 300, None), None), ((None, None, 60.0), None), ((7, 300, 60.0), 7)],
)
def test_samples_have_a_default_only_without_another_budget(
    limits: tuple[int | None, int | None, float | None], expected: int | None
) -> None:
    """The user's number of samples holds in any case."""
    assert expected == sample_limit(*limits)


def test_a_share_of_the_limits_is_at_least_one_of_what_is_whole() -> None:
    """No limit stays none."""
    shared = RunSettings(max_samples=None, max_steps=1, max_seconds=3.0, least_steps=200).share(2)

    assert (None, 1, 1.5) == (shared.max_samples, shared.max_steps, shared.max_seconds)
    assert 100 == shared.least_steps


def run_within(target: SyntheticTarget, **limits: float | bool) -> Outcome:
    """Run the policy with no limit of samples."""
    settings = RunSettings(max_samples=None, key={}, **limits)  # type: ignore[arg-type]
    return tune(target, make_designer("random", target.space(), 0), settings)


@pytest.mark.parametrize("seconds", [10.0, 30.0, 120.0])
@pytest.mark.parametrize("surface_is_flat", [False, True])
def test_a_decision_comes_within_the_seconds(seconds: float, surface_is_flat: bool) -> None:
    """Warmup, search and test fit, and the usable part of the budget is used."""
    disturbances = Disturbances(step_noise=0.03)
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=disturbances)
    if surface_is_flat:
        target = SyntheticTarget(surface=flat_surface, disturbances=disturbances)

    outcome = run_within(target, max_seconds=seconds)

    assert outcome.result.is_complete
    assert outcome.result.adopted is not surface_is_flat, outcome.result.verdict
    assert 0.5 * seconds < outcome.result.seconds <= seconds
    assert samples(outcome, Phase.SEARCH)


@pytest.mark.parametrize("steps", [600, 1500])
def test_a_decision_comes_within_the_steps_of_the_job(steps: int) -> None:
    """Those between windows count: the run measures a part of them."""
    target = NumberedJob(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.01))

    outcome = run_within(target, max_steps=steps)

    assert outcome.result.speedup is not None, outcome.result.verdict
    assert outcome.result.steps < 0.5 * steps
    assert 0.5 * steps < target.steps <= steps


def test_whichever_is_reached_first_ends_the_run() -> None:
    """Steps, seconds, samples."""
    results = [
        run_within(SyntheticTarget(), max_steps=150, max_seconds=1000.0).result,
        run_within(SyntheticTarget(), max_steps=100_000, max_seconds=8.0).result,
    ]
    few = tune(SyntheticTarget(), settings=RunSettings(max_samples=2, max_steps=100_000, max_seconds=1000.0))

    assert results[0].steps <= 150
    assert results[1].seconds <= 8.0
    assert 2 == len({record.trial_id for record in samples(few, Phase.SEARCH)})


@pytest.mark.parametrize("limits", [{"max_steps": 1000}, {"max_seconds": 20.0}])
def test_launches_have_the_steps_that_they_have(limits: dict[str, float]) -> None:
    """No plan of shorter windows makes them cheaper."""
    target = Launches(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.02))

    outcome = run_within(target, warmup_steps=0, fixed_windows=True, **limits)

    assert outcome.result.adopted, outcome.result.verdict
    assert 300 < target.launched
    assert outcome.result.seconds <= limits.get("max_seconds", float("inf"))
    assert target.launched <= limits.get("max_steps", float("inf"))


def test_the_log_says_within_what_was_decided() -> None:
    """The log has the budget, and the display shows no more seconds than are left."""
    outcome = run_within(SyntheticTarget(), max_steps=400, max_seconds=9.0)

    run = next(record for record in outcome.records if isinstance(record, RunRecord))
    assert (None, 400, 9.0) == tuple(run.steps_budget[f"max_{unit}"] for unit in ("samples", "steps", "seconds"))
    left = [progress.seconds_left for progress in outcome.observer.seen]
    assert all(seconds is not None and 0.0 <= seconds <= 9.0 for seconds in left)
