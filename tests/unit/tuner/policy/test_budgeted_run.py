# SPDX-License-Identifier: Apache-2.0
"""Runs with a budget of steps on simulated jobs that pause: the config found must still be tested."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from ringtune.tuner import (
    Config,
    Phase,
    Prediction,
    RunSettings,
    SilentObserver,
    Suggestion,
    Trial,
    TuningRun,
    default_config,
    make_designer,
    open_log,
)
from ringtune.tuner.policy.budget import ExplorationAccount, adoption_steps, reserved_steps
from ringtune.tuner.policy.state import RunState
from ringtune.tuner.policy.trials import TrialBook
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.simulator import SCENARIOS
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, measured_trial, poor_baseline
from tests.unit.tuner.recording import samples, tune

MAX_STEPS = 200


@pytest.mark.parametrize(
    ("scenario", "seed"), [("manysmall_8x8_25gbit", 0), ("manysmall_4x4_10gbit", 0), ("manysmall_4x4_10gbit", 32)]
)
def test_steps_are_left_to_test_what_was_found(scenario: str, seed: int) -> None:
    """Half of the step time is to be gained: neither a pause in the test nor waiting in the search may cost that."""
    target = replace(SCENARIOS[scenario], baseline=Config({"hierarchical_allreduce": False})).target(seed)
    settings = RunSettings(
        max_steps=MAX_STEPS, max_samples=MAX_STEPS, warmup_steps=0, steps_per_sample=10, key={}, seed=seed
    )
    designer = make_designer("gp", target.space(), settings.seed)

    result = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run()

    assert result.adopted, result.verdict
    assert target.step_ms(result.config) < 0.8 * target.step_ms(result.baseline)


@pytest.mark.parametrize("seed", [28, 53, 62, 145])
def test_a_gain_that_was_expected_to_be_larger_is_tested_all_the_same(seed: int) -> None:
    """The search has left room for short windows; the last samples ask for long ones, of which two pairs do not fit."""
    noisy = Disturbances(step_noise=0.4)
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=noisy, seed=seed)
    settings = RunSettings(max_steps=100, max_samples=100, warmup_steps=0, steps_per_sample=10, seed=seed)
    designer = make_designer("random", target.space(), seed)

    result = TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run()

    assert result.speedup is not None, result.verdict
    assert result.steps <= 100


def test_an_unknown_config_is_looked_at_for_a_short_while() -> None:
    """The first one may be off by a third: windows of the search are shorter than those of the baseline."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.02), seed=0)
    settings = RunSettings(max_steps=400, max_samples=3, warmup_steps=0)

    outcome = tune(target, make_designer("gp", target.space(), 0), settings)

    usual = samples(outcome, Phase.BASELINE)[-1].steps
    assert POLICY.least_window_steps == samples(outcome, Phase.SEARCH)[0].steps < usual


def test_while_nothing_is_found_the_search_has_what_a_small_gain_would_need() -> None:
    """The rest of the budget has room for short windows of a test, and for no other sample."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.001), seed=0)
    max_steps = 100
    settings = RunSettings(max_steps=max_steps, max_samples=100, warmup_steps=0, steps_per_sample=10)

    result = tune(target, settings=settings).result

    left = max_steps - result.steps
    assert not result.adopted
    assert left < reserved_steps(max_steps, POLICY.least_window_steps, POLICY) + 2 * (10 + POLICY.settle_steps)


class Settled:
    """Suggests one config that is 3 % faster, and then others of which it expects little or much."""

    name = "settled"

    def __init__(self, later_gain: float, std: float = 0.002) -> None:
        self._later_gain, self._std = later_gain, std
        self._trials: Sequence[Trial] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Take them in."""
        self._trials = trials

    def suggest(self) -> Suggestion:
        """Suggest a config, with a standard deviation, so that it is believed."""
        config = default_config().replace({"cycle_ms": 2.0 + len(self._trials)})
        return Suggestion(config, 1e6, 1e3)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Expect 3 % of the first suggestion, 0 of other measured configs, and the later gain of unmeasured ones."""
        tried = [trial.config for trial in self._trials]
        gains = [0.0 if c in tried else 0.03 if len(tried) == 1 else self._later_gain for c in configs]
        gains = [0.03 if c in tried[1:2] else gain for c, gain in zip(configs, gains, strict=True)]
        return Prediction(-np.array(gains), np.array([0.002 if c in tried else self._std for c in configs]))


@pytest.mark.parametrize("max_steps", range(102, 107))
def test_the_last_sample_of_the_search_leaves_the_test_its_pairs(max_steps: int) -> None:
    """The pairs fit even after a sample that was to be short until the designer named its config."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.001), seed=0)
    settings = RunSettings(max_steps=max_steps, max_samples=100, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer("gp", target.space(), 0), settings)

    tested = sum(record.steps + POLICY.settle_steps for record in samples(outcome, Phase.ADOPTION))
    least = adoption_steps(LEAST_PAIRS, POLICY.least_window_steps, POLICY.settle_steps)
    assert max_steps - outcome.result.steps + tested >= least
    assert outcome.result.steps <= max_steps


@pytest.mark.parametrize("max_steps", range(60, 260, 20))
def test_a_budget_of_steps_alone_leaves_room_to_try_something(max_steps: int) -> None:
    """Windows that a noisy baseline asks for do not take the whole of it: a gain of 150 % is found."""
    noisy = Disturbances(step_noise=0.1)
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=noisy, seed=max_steps)

    outcome = tune(target, settings=RunSettings(max_samples=None, max_steps=max_steps))

    assert len(samples(outcome, Phase.SEARCH)) >= 1, outcome.result.verdict
    assert outcome.result.adopted, outcome.result.verdict


@pytest.mark.parametrize(("max_steps", "expected"), [(4000, 150), (2000, 100), (None, 150)])
def test_windows_have_the_steps_that_the_user_has_set_or_a_twentieth_of_the_budget(
    max_steps: int | None, expected: int
) -> None:
    """Longer ones would leave no room to try anything."""
    settings = RunSettings(max_steps=max_steps, steps_per_sample=150, warmup_steps=0)

    outcome = tune(SyntheticTarget(seed=1), make_designer("random", SyntheticTarget().space(), 0), settings)

    assert expected == max(record.steps for record in samples(outcome, Phase.SEARCH))


def slow_default(config: Config) -> float:
    """Return ln of 2 s a step, of a tenth of that where tensors are fused."""
    return math.log(2000.0 if config["fusion_bytes"] == 0 else 200.0)


def test_seconds_are_planned_for_the_default_s_steps() -> None:
    """The plan of seconds fits the default's steps, in half of the test, even if the candidate is ten times as fast."""
    target = SyntheticTarget(surface=slow_default, baseline=poor_baseline(), seed=2)

    result = tune(target, settings=RunSettings(max_samples=None, max_seconds=200.0)).result

    assert result.adopted, result.verdict
    assert result.seconds <= 200.0


@pytest.mark.parametrize("least_steps", [0, 200])
def test_slow_steps_have_a_least_number_of_them(least_steps: int) -> None:
    """Steps of 4 s, of which two minutes have 30, get two hundred, which show a gain."""

    def surface(config: Config) -> float:
        return math.log(2.0) + slow_default(config)

    target = SyntheticTarget(surface=surface, baseline=poor_baseline(), seed=2)
    settings = RunSettings(max_samples=None, max_seconds=120.0, least_steps=least_steps)

    result = tune(target, settings=settings).result

    assert result.adopted == (least_steps > 0), result.verdict
    assert result.steps <= max(least_steps, 30)


@pytest.mark.parametrize(
    ("std", "expected"), [(0.3, POLICY.least_window_steps), (0.04, 8), (0.01, 10), (0.0, 10)], ids=str
)
def test_the_less_is_known_of_a_config_the_shorter_is_its_window(std: float, expected: int) -> None:
    """Steps scatter by 1.5 %: a median of few tells a config that may be off by a third, not one that may by 1 %."""
    state = RunState(
        settings=RunSettings(max_steps=200),
        baseline=default_config(),
        incumbent=default_config(),
        reference=default_config(),
        meter=None,  # type: ignore[arg-type]
        book=TrialBook(default_config()),
        journal=None,  # type: ignore[arg-type]
        account=ExplorationAccount(0.0),
        steps=10,
    )
    state.book.add(measured_trial(0, default_config(), [20.0]).samples[0])

    assert expected == state.search_steps(std)


@pytest.mark.parametrize("designer", ["random", "gp"])
@pytest.mark.parametrize(("max_steps", "expected"), [(100, 3 * [5]), (200, 3 * [10]), (None, 3 * [10])])
def test_the_baseline_has_several_windows_however_small_the_budget(
    designer: str, max_steps: int | None, expected: list[int]
) -> None:
    """Only repeated windows show how much windows of one config differ."""
    target = SyntheticTarget(disturbances=Disturbances(step_noise=0.01), seed=0)
    settings = RunSettings(max_steps=max_steps, max_samples=1, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer(designer, target.space(), 0), settings)

    assert expected == [record.steps for record in samples(outcome, Phase.BASELINE)]


@pytest.mark.parametrize(("later_gain", "is_over"), [(-0.5, True), (0.3, False)], ids=["hopeless", "promising"])
def test_a_search_ends_once_no_sample_is_worth_its_steps(later_gain: float, is_over: bool) -> None:
    """The policy's patience with hopeless suggestions ends the search, and promising ones do not."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.01), seed=0)
    settings = RunSettings(max_steps=2000, max_samples=30, warmup_steps=0, steps_per_sample=10)

    taken = len(samples(tune(target, Settled(later_gain), settings), Phase.SEARCH))

    assert taken == (1 + POLICY.patience - 1 if is_over else 30)


def test_steps_of_two_seconds_are_tried_within_five_minutes() -> None:
    """The account of exploration lends the budget's share in advance: 9 s, where one cut window costs 4 s."""
    target = SyntheticTarget(surface=slow_default, baseline=poor_baseline(), seed=2)

    result = tune(target, settings=RunSettings(max_samples=None, max_seconds=300.0)).result

    assert result.adopted, result.verdict
    assert result.seconds <= 300.0
