# SPDX-License-Identifier: Apache-2.0
"""Runs with a budget of steps on simulated jobs that pause: what was found must still be tested."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

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
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.policy.budget import ExplorationAccount, adoption_steps
from ringtune.tuner.policy.measuring import SETTLE_STEPS, SHORT_WINDOW_STEPS
from ringtune.tuner.policy.phases import LEAST_SAMPLES_AFTER, RunState
from ringtune.tuner.policy.trials import TrialBook
from ringtune.tuner.simulator import SCENARIOS
from ringtune.tuner.statistics.pair_noise import MIN_PAIRS
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, measured_trial, poor_baseline
from tests.unit.tuner.recording import samples, tune

MAX_STEPS = 200


@pytest.mark.parametrize(
    ("scenario", "seed"), [("manysmall_8x8_25gbit", 0), ("manysmall_4x4_10gbit", 0), ("manysmall_4x4_10gbit", 32)]
)
def test_steps_are_left_to_test_what_was_found(scenario: str, seed: int) -> None:
    """Half of the step time is to be gained: neither a pause in the test nor waiting in the search may cost that."""
    target = SCENARIOS[scenario].target(seed)
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


@pytest.mark.parametrize(
    ("unknown_std", "max_steps", "expected"),
    [(0.3, 100, SHORT_WINDOW_STEPS), (0.04, 100, 8), (0.01, 100, 10), (None, 100, 10), (0.3, None, 10)],
    ids=["everything", "much", "little", "informed", "without a budget"],
)
def test_the_less_is_known_the_shorter_is_a_window_of_the_search(
    unknown_std: float | None, max_steps: int | None, expected: int
) -> None:
    """Steps scatter by 1.5 %: a median of few tells a config that may be off by a third, not one that may by 1 %."""
    state = measured_state(max_steps)
    state.unknown_std = unknown_std

    assert expected == state.search_steps


@pytest.mark.parametrize(("designer", "expected"), [("gp", SHORT_WINDOW_STEPS), ("random", 10)])
def test_without_a_prior_many_configs_are_looked_at_for_a_short_while(designer: str, expected: int) -> None:
    """Only a designer knows whether more than the samples speaks for what it suggests."""
    target = SyntheticTarget(disturbances=Disturbances(step_noise=0.01), seed=0)
    settings = RunSettings(max_steps=100, max_samples=100, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer(designer, target.space(), 0), settings)

    assert expected == max(record.steps for record in samples(outcome, Phase.SEARCH))


def test_while_nothing_is_found_the_search_has_what_a_small_gain_would_need() -> None:
    """The rest of the budget has room for short windows of a test, and for no other sample."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.001), seed=0)
    max_steps = 100
    settings = RunSettings(max_steps=max_steps, max_samples=100, warmup_steps=0, steps_per_sample=10)

    result = tune(target, settings=settings).result

    left = max_steps - result.steps
    assert not result.adopted
    assert left < adoption_steps(MIN_PAIRS, SHORT_WINDOW_STEPS) + 2 * (10 + SETTLE_STEPS)


@pytest.mark.parametrize(
    ("designer", "max_steps", "expected"),
    [
        ("random", 100, 3 * [SHORT_WINDOW_STEPS]),
        ("random", 200, 3 * [10]),
        ("gp", 100, 2 * [SHORT_WINDOW_STEPS]),
        ("gp", 200, 2 * [10]),
        ("gp", None, 3 * [10]),
    ],
)
def test_the_baseline_has_several_windows_however_small_the_budget(
    designer: str, max_steps: int | None, expected: list[int]
) -> None:
    """Only repeated windows tell how much windows differ; a designer that says that it knows nothing needs configs."""
    target = SyntheticTarget(disturbances=Disturbances(step_noise=0.01), seed=0)
    settings = RunSettings(max_steps=max_steps, max_samples=1, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer(designer, target.space(), 0), settings)

    assert expected == [record.steps for record in samples(outcome, Phase.BASELINE)]


def test_the_baseline_is_not_measured_again_just_before_the_test() -> None:
    """The test measures the baseline anyway, so that the steps before it stay with search and test."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.001), seed=0)
    settings = RunSettings(max_samples=100, warmup_steps=0, steps_per_sample=10)
    searched = {}
    for max_steps in range(100, 300, 5):
        outcome = tune(target, settings=replace(settings, max_steps=max_steps))
        records = [r.phase for r in outcome.records if isinstance(r, SampleRecord)]
        last = max(index for index, phase in enumerate(records) if phase == Phase.BASELINE)
        searched[max_steps] = records[last:].count(Phase.SEARCH)

    assert min(searched.values()) >= LEAST_SAMPLES_AFTER, searched


class Settled:
    """Suggests one config that is 3 % faster, and then others of which it expects little or much."""

    name = "settled"

    def __init__(self, later_gain: float, std: float = 0.002, *, is_informed: bool = True) -> None:
        self._later_gain, self._std = later_gain, std
        self._is_informed = is_informed
        self._trials: Sequence[Trial] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Take them in."""
        self._trials = trials

    def suggest(self) -> Suggestion:
        """Suggest a config, with a standard deviation, so that it is believed."""
        config = default_config().replace({"cycle_ms": 2.0 + len(self._trials)})
        return Suggestion(config, 1e6, 1e3, is_informed=self._is_informed)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Expect 3 % of what was suggested first, nothing of the others measured, and what was said of the next."""
        tried = [trial.config for trial in self._trials]
        gains = [0.0 if c in tried else 0.03 if len(tried) == 1 else self._later_gain for c in configs]
        gains = [0.03 if c in tried[1:2] else gain for c, gain in zip(configs, gains, strict=True)]
        return Prediction(-np.array(gains), np.array([0.002 if c in tried else self._std for c in configs]))


@pytest.mark.parametrize(("later_gain", "most_samples"), [(-0.5, 1), (0.3, 30)], ids=["hopeless", "promising"])
def test_no_sample_is_taken_from_the_test_without_a_prospect(later_gain: float, most_samples: int) -> None:
    """The steps that show a small gain are not spent on configs without a prospect of one."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.03), seed=0)
    settings = RunSettings(max_steps=200, max_samples=30, warmup_steps=0, steps_per_sample=10)

    taken = len(samples(tune(target, Settled(later_gain), settings), Phase.SEARCH))

    assert (taken == 1) == (most_samples == 1)
    assert taken <= most_samples


def test_who_knows_only_samples_looks_further() -> None:
    """A model of few samples is too sure of what it has not seen; what a prior tells is taken at its word."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.03), seed=0)
    settings = RunSettings(max_steps=200, max_samples=30, warmup_steps=0, steps_per_sample=10)

    taken = {
        is_informed: len(samples(tune(target, Settled(0.0, 0.02, is_informed=is_informed), settings), Phase.SEARCH))
        for is_informed in (False, True)
    }

    assert 1 == taken[True] < taken[False], taken


class Repeating(Settled):
    """Suggests the faster config again and again, and says that its samples tell of it."""

    def suggest(self) -> Suggestion:
        """Say that something may be learned."""
        return Suggestion(default_config().replace({"cycle_ms": 3.0}), 1e6, 1e3)

    def covariance(self, configs: Sequence[Config]) -> NDArray[np.float64]:
        """Return that of equal configs, of which 2 % are unknown, and of the baseline, which is known."""
        known = np.array([config != default_config() for config in configs])
        return 0.02**2 * np.outer(known, known)


def test_steps_that_the_test_has_no_use_for_are_the_search_s() -> None:
    """Twelve pairs have room beside all samples; one that changes no pick costs them nothing."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.15), seed=0)
    settings = RunSettings(max_steps=2000, max_samples=8, warmup_steps=0, steps_per_sample=10)

    taken = len(samples(tune(target, Repeating(0.03), settings), Phase.SEARCH))

    assert taken == settings.max_samples


class Wavering:
    """A Gaussian process of which every other suggestion is said to be informed."""

    def __init__(self, target: SyntheticTarget) -> None:
        self._process = make_designer("gp", target.space(), 0)
        self._suggested = 0
        self.name = self._process.name

    def update(self, trials: Sequence[Trial]) -> None:
        """Take them in."""
        self._process.update(trials)

    def suggest(self) -> Suggestion:
        """Say in turn that only samples speak for the config, and that more does."""
        self._suggested += 1
        return replace(self._process.suggest(), is_informed=self._suggested % 2 == 0)

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return the process's prediction."""
        return self._process.predict(configs)


@pytest.mark.parametrize("max_steps", range(102, 107))
def test_the_last_sample_of_the_search_leaves_the_test_its_pairs(max_steps: int) -> None:
    """The pairs fit even after a sample that was to be short until the designer named its config."""
    target = SyntheticTarget(surface=flat_surface, disturbances=Disturbances(step_noise=0.001), seed=0)
    settings = RunSettings(max_steps=max_steps, max_samples=100, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, Wavering(target), settings)

    tested = sum(record.steps + SETTLE_STEPS for record in samples(outcome, Phase.ADOPTION))
    assert max_steps - outcome.result.steps + tested >= adoption_steps(MIN_PAIRS, SHORT_WINDOW_STEPS)
    assert outcome.result.steps <= max_steps


def measured_state(max_steps: int | None) -> RunState:
    """Return the state of a run that has measured its baseline, whose steps scatter by 1.5 %, and nothing else."""
    state = RunState(
        settings=RunSettings(max_steps=max_steps, steps_per_sample=10),
        baseline=default_config(),
        incumbent=default_config(),
        reference=default_config(),
        meter=None,  # type: ignore[arg-type]
        book=TrialBook(default_config()),
        journal=None,  # type: ignore[arg-type]
        account=ExplorationAccount(0.0),
    )
    state.book.add(measured_trial(0, default_config(), [20.0]).samples[0])
    return state


@pytest.mark.parametrize("max_steps", range(60, 260, 20))
def test_a_budget_of_steps_alone_leaves_room_to_try_something(max_steps: int) -> None:
    """Windows that a noisy baseline asks for do not take the whole of it: a gain of 150 % is found."""
    noisy = Disturbances(step_noise=0.1)
    target = SyntheticTarget(baseline=poor_baseline(), disturbances=noisy, seed=max_steps)

    outcome = tune(target, settings=RunSettings(max_samples=None, max_steps=max_steps))

    assert len(samples(outcome, Phase.SEARCH)) >= 1, outcome.result.verdict
    assert outcome.result.adopted, outcome.result.verdict


def test_windows_that_the_user_has_set_are_not_made_shorter() -> None:
    """Windows of the user's length stay, and so do those without a budget."""
    for settings in (
        RunSettings(max_steps=2000, steps_per_sample=150, warmup_steps=0),
        RunSettings(warmup_steps=0, steps_per_sample=150),
    ):
        outcome = tune(SyntheticTarget(seed=1), make_designer("random", SyntheticTarget().space(), 0), settings)

        assert 150 == max(record.steps for record in samples(outcome, Phase.SEARCH))


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
