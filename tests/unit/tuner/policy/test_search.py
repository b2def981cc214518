# SPDX-License-Identifier: Apache-2.0
"""Tests of warmup, baseline and search on synthetic targets."""

import math

import numpy as np

from ringtune.tuner import Config, Phase, RunSettings, VoidReason, default_config
from ringtune.tuner.logs.records import SampleRecord, SuggestionRecord
from ringtune.tuner.policy.warmup import is_stable
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import Disturbances, SyntheticTarget, engine_like_surface, poor_baseline
from tests.unit.tuner.recording import samples, tune


def test_stable_needs_enough_windows() -> None:
    """Fewer windows are never stable."""
    assert not is_stable([10.0] * (POLICY.stable_windows - 1))
    assert is_stable([10.0] * POLICY.stable_windows)


def test_a_steady_fall_is_not_stable_until_it_levels_off() -> None:
    """A warming cache shows as a slope; only the last windows count."""
    falling = [20.0, 17.0, 15.0, 13.5, 12.5, 11.9]

    assert not is_stable(falling)
    assert is_stable([*falling, 11.5, 11.4, 11.6, 11.5, 11.45])


def test_noise_is_stable() -> None:
    """Scatter without a slope does not hold up the run: 19 of 20 series of 4 % noise pass."""
    rng = np.random.default_rng(1)

    passed = sum(is_stable(list(np.exp(rng.normal(0.0, 0.04, POLICY.stable_windows)))) for _ in range(400))

    assert 0.9 * 400 < passed


def test_warmup_ends_although_times_never_settle() -> None:
    """A job that gets slower for ever is tuned after a bounded number of windows."""
    target = SyntheticTarget(surface=lambda _: math.log(20.0) + 0.1 * target._windows)

    outcome = tune(target, settings=RunSettings(max_samples=1))

    assert POLICY.most_warmup_windows == len(samples(outcome, Phase.WARMUP))
    assert outcome.result.is_complete


def test_the_users_warmup_holds() -> None:
    """Exactly so many steps are run before the baseline."""
    outcome = tune(SyntheticTarget(), settings=RunSettings(max_samples=1, warmup_steps=130))

    assert [100, 30] == [record.steps for record in samples(outcome, Phase.WARMUP)]


def test_warmup_takes_its_share_of_a_budget_at_most() -> None:
    """A window of 100 ms has 100 of these steps, and an eighth of the budget has 50."""
    target = SyntheticTarget(surface=lambda _: math.log(1.0))

    outcome = tune(target, settings=RunSettings(max_samples=1, max_steps=400))

    warmup = [record.steps for record in samples(outcome, Phase.WARMUP)]
    assert sum(warmup[:-1]) <= POLICY.warmup_share * 400
    assert warmup[-1] <= max(POLICY.warmup_share * 400 - sum(warmup[:-1]), POLICY.least_window_steps)


def test_no_warmup_when_the_user_wants_none() -> None:
    """Zero steps go straight to the baseline."""
    outcome = tune(SyntheticTarget(), settings=RunSettings(max_samples=1, warmup_steps=0))

    assert [] == samples(outcome, Phase.WARMUP)
    assert POLICY.baseline_windows == len(samples(outcome, Phase.BASELINE))


def test_the_baseline_is_measured_first_and_again() -> None:
    """Three samples, then one before every fifth suggestion but the first."""
    outcome = tune(SyntheticTarget(), settings=RunSettings(max_samples=20))

    phases = [r.phase for r in outcome.records if isinstance(r, SampleRecord) and r.phase in ("baseline", "search")]

    assert ["baseline"] * 3 + (["search"] * 5 + ["baseline"]) * 3 + ["search"] * 5 == phases
    assert {0} == {record.trial_id for record in samples(outcome, Phase.BASELINE)}


def test_without_gradients_the_run_ends_and_says_so() -> None:
    """A job without reductions cannot be tuned."""
    target = SyntheticTarget(disturbances=Disturbances(void={VoidReason.NO_GRADIENTS: 1.0}))

    result = tune(target).result

    assert (
        "keeping default: none of 30 windows was valid while warming up: steps combined no gradient (no_gradients)"
        == (result.verdict)
    )
    assert default_config() == result.config


def test_a_baseline_that_is_always_void_ends_the_run() -> None:
    """Without a baseline no config can be compared."""
    target = SyntheticTarget(disturbances=Disturbances(void={VoidReason.PAUSE: 1.0}))

    result = tune(target, settings=RunSettings(warmup_steps=0)).result

    assert "keeping default: no window of the baseline was valid: a step took many times the usual time (pause)" == (
        result.verdict
    )


class PausesFirst(SyntheticTarget):
    """A job whose first windows have pauses."""

    def __init__(self, void_windows: int) -> None:
        """Pause in that many windows."""
        super().__init__()
        self._void_windows = void_windows

    def _void_reason(self) -> VoidReason | None:
        return VoidReason.PAUSE if self._windows <= self._void_windows else None


def test_a_single_valid_window_of_the_baseline_is_enough_to_go_on() -> None:
    """The run depends on the baseline, so it outlasts more pauses than the retries of one window."""
    pauses = POLICY.baseline_windows * (1 + POLICY.void_repeats) - 1

    outcome = tune(PausesFirst(pauses), settings=RunSettings(max_samples=1, warmup_steps=0))

    assert outcome.result.is_complete
    assert 1 == len(samples(outcome, Phase.SEARCH)), outcome.result.verdict


def test_a_clearly_bad_config_is_cut_and_counts() -> None:
    """Ten times the baseline's step is known after a few steps."""

    def surface(config: Config) -> float:
        return math.log(20.0 if config == default_config() else 200.0)

    outcome = tune(SyntheticTarget(surface=surface), settings=RunSettings(max_samples=3))

    assert [(3, True)] * 3 == [(record.steps, record.valid) for record in samples(outcome, Phase.SEARCH)]


def test_while_the_designer_thinks_the_best_known_config_is_in_force() -> None:
    """Before each candidate the best of those that the designer had seen when it was last asked is in force."""
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.001, window_noise=0.0))

    outcome = tune(target, settings=RunSettings(max_samples=10))

    tried = [Config(record.config) for record in outcome.records if isinstance(record, SuggestionRecord)]
    in_force = [target.applied[target.applied.index(config) - 1] for config in tried]
    known = [[poor_baseline(), *tried[: max(index - 1, 0)]] for index in range(len(tried))]
    best = [min(configs, key=engine_like_surface) for configs in known]
    assert best == in_force


def test_void_windows_are_measured_again_and_the_run_goes_on() -> None:
    """A trial gets its sample or is recorded as inconclusive, even if a third of all windows is void."""
    void = {VoidReason.PAUSE: 0.15, VoidReason.TENSOR_SET_CHANGED: 0.1, VoidReason.MIXED_EPOCHS: 0.1}
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(void=void), seed=5)

    outcome = tune(target)

    searched = samples(outcome, Phase.SEARCH)
    assert outcome.result.adopted
    assert len({record.trial_id for record in searched if record.valid}) >= 18
    assert any(not record.valid for record in searched)


def dear(config: Config) -> float:
    """Return a surface on which every config but the default takes 1.25 times as long: too little to be cut."""
    return math.log(1000.0) + (0.0 if config == default_config() else math.log(1.25))


def test_exploration_costs_no_more_than_its_share_of_the_time() -> None:
    """A job with steps of a second trains on under the default until it has paid for each try."""
    outcome = tune(SyntheticTarget(surface=dear), settings=RunSettings(max_samples=12))

    assert outcome.result.is_complete
    assert outcome.result.seconds > 2 * POLICY.exploration_grace_s
    assert outcome.result.cost_s < POLICY.exploration_share * outcome.result.seconds
    assert len({record.trial_id for record in samples(outcome, Phase.SEARCH)}) == 12


def test_launches_are_not_spent_on_waiting_for_an_exploration_budget() -> None:
    """A launch costs no training: candidates that are slower than the default follow each other at once."""
    settings = RunSettings(max_samples=12, fixed_windows=True, warmup_steps=0)

    outcome = tune(SyntheticTarget(surface=dear), settings=settings)

    assert [] == samples(outcome, Phase.WATCH)
    assert 12 == len(samples(outcome, Phase.SEARCH))


class SlowerLater(SyntheticTarget):
    """A machine on which everything takes longer from the second minute on."""

    def __init__(self) -> None:
        super().__init__(surface=self._now)

    def _now(self, config: Config) -> float:
        return engine_like_surface(config) + math.log(10.0) + (0.2 if self.now_s > 70.0 else 0.0)


def test_a_machine_that_becomes_slower_does_not_make_the_search_wait_for_ever() -> None:
    """Windows while waiting are those of a watch, and not the price of a try."""
    outcome = tune(SlowerLater(), settings=RunSettings(max_samples=20))

    assert outcome.result.is_complete
    assert outcome.result.seconds < 3600.0
    assert samples(outcome, Phase.WATCH)
    assert len(samples(outcome, Phase.SEARCH)) <= 20 + 1


def test_what_is_faster_than_the_baseline_need_not_be_paid_for() -> None:
    """A search from a poor baseline saves time, and is never held up."""

    def poor_default(config: Config) -> float:
        return math.log(1000.0) - (0.0 if config == default_config() else 0.3)

    outcome = tune(SyntheticTarget(surface=poor_default), settings=RunSettings(max_samples=12))

    assert outcome.result.cost_s < 0
    assert 12 == len(samples(outcome, Phase.SEARCH))
