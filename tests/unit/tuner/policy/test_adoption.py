# SPDX-License-Identifier: Apache-2.0
"""Tests of the adoption test."""

import math
import re

import pytest

from ringtune.tuner import Config, Phase, RunSettings, VoidReason, default_config
from ringtune.tuner.logs.records import AdoptionRecord, ResultRecord, SampleRecord
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.statistics.paired_test import LEAST_PAIRS
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, poor_baseline
from tests.unit.tuner.recording import Outcome, samples, tune


def adoption(outcome: Outcome) -> AdoptionRecord:
    """Return the record of the decision."""
    return next(record for record in outcome.records if isinstance(record, AdoptionRecord))


def test_a_true_gain_is_adopted_with_its_interval() -> None:
    """The verdict, the record and the result agree, and the truth lies near."""
    outcome = tune(SyntheticTarget(baseline=poor_baseline(), seed=1))

    record, result = adoption(outcome), outcome.result
    truth = outcome.target.true_speedup(result.config)

    assert result.adopted
    assert LEAST_PAIRS <= len(record.pairs) < 12
    assert (record.speedup, record.ci_low, record.ci_high) == (result.speedup, result.ci_low, result.ci_high)
    assert record.ci_low is not None and record.ci_high is not None  # noqa: PT018
    assert record.ci_low - 0.05 < truth < record.ci_high + 0.05
    assert result.verdict.startswith("adopted: +")
    assert result.config == outcome.target.applied[-1]


def test_pairs_alternate_in_order() -> None:
    """Baseline first, then challenger first: drift within pairs cancels."""
    outcome = tune(Fading(26, 0.0), settings=RunSettings(max_samples=20, warmup_steps=0))

    is_baseline = [record.trial_id == 0 for record in samples(outcome, Phase.ADOPTION)]

    assert [True, False, False, True] * 6 == is_baseline


def test_noise_that_hides_a_gain_is_told() -> None:
    """Windows of the default differ by a third: a gain of 1 % cannot be excluded."""
    noisy = Disturbances(step_noise=0.01, window_noise=0.3)

    results = [tune(SyntheticTarget(surface=flat_surface, disturbances=noisy, seed=seed)).result for seed in range(3)]

    verdicts = [result.verdict for result in results if result.speedup is None]
    assert verdicts
    for verdict in verdicts:
        assert re.match(
            r"keeping default: too noisy to tell: the baseline's own windows differ, \S+ to \S+ ms", verdict
        )
        assert "12 pairs show no gain below " in verdict
        assert verdict.endswith(" %, and 1 % is sought")


def test_noise_that_hides_nothing_is_not_blamed() -> None:
    """Every other config is twice as slow: no noise leaves room for a gain, and no step is spent on a test."""

    def surface(config: Config) -> float:
        return math.log(20.0 if config == default_config() else 40.0)

    noisy = Disturbances(step_noise=0.01, window_noise=0.04)
    result = tune(SyntheticTarget(surface=surface, disturbances=noisy)).result

    assert "keeping default: no configuration is expected to gain more than 1 %" == result.verdict
    assert (None, None, None, None) == (result.speedup, result.ci_low, result.ci_high, result.payback_steps)
    assert default_config() == result.config


class Fading(SyntheticTarget):
    """A job where every config but the baseline looks fast in the search and is slow ever after."""

    def __init__(self, after_windows: int, change: float, disturbances: Disturbances | None = None) -> None:
        """Change the surface of the others to `change` above the baseline after so many windows."""
        super().__init__(surface=self._fading, disturbances=disturbances, seed=4)
        self._after_windows = after_windows
        self._change = change

    def _fading(self, config: Config) -> float:
        if config == default_config():
            return math.log(20.0)
        return math.log(20.0) + (self._change if self._windows > self._after_windows else -0.1)


class Pausing(Fading):
    """A job whose other configs are 10 % faster, that pauses in one window."""

    def __init__(self, paused_window: int | None = None) -> None:
        """Void the window of that number, from 1 on."""
        super().__init__(1000, 0.0, Disturbances(step_noise=0.02))
        self._paused_window = paused_window

    def _void_reason(self) -> VoidReason | None:
        return VoidReason.PAUSE if self._windows == self._paused_window else None


@pytest.mark.parametrize("max_steps", [180, 200, 220])
def test_a_pause_in_the_test_costs_no_plain_gain(max_steps: int) -> None:
    """A pause may fall in any window: the reserve of windows is still there, and shorter windows are not needed."""
    settings = RunSettings(max_samples=max_steps, max_steps=max_steps, steps_per_sample=10, warmup_steps=0)
    undisturbed = tune(Pausing(), settings=settings)
    phases = [record.phase for record in undisturbed.records if isinstance(record, SampleRecord)]
    tested = [number for number, phase in enumerate(phases, start=1) if phase == Phase.ADOPTION]

    outcomes = {number: tune(Pausing(number), settings=settings).result for number in tested}

    assert {True} == {result.adopted for result in outcomes.values()}, outcomes
    assert max(result.steps for result in outcomes.values()) <= max_steps


@pytest.mark.parametrize("max_steps", [95, 100, 107, 111])
def test_without_a_pause_all_windows_of_the_test_are_as_planned(max_steps: int) -> None:
    """Windows stay as planned even if the pairs use up the budget to the last step."""
    settings = RunSettings(max_samples=5, max_steps=max_steps, steps_per_sample=10, warmup_steps=0)
    outcome = tune(Fading(1000, 0.0, Disturbances(step_noise=0.06)), settings=settings)

    steps = [record.steps for record in samples(outcome, Phase.ADOPTION)]

    assert 2 * len(adoption(outcome).pairs) == len(steps)
    assert 1 == len(set(steps)), steps


def test_a_lucky_search_is_not_adopted() -> None:
    """One that looked 10 % faster in the search is not, in the test: only the adoption's record has a gain."""
    outcome = tune(Fading(26, 0.0), settings=RunSettings(max_samples=20, warmup_steps=0))

    kept = next(record for record in outcome.records if isinstance(record, ResultRecord))
    record = adoption(outcome)
    bounds = f"{100 * (record.ci_low or 0.0):+.1f} % to {100 * (record.ci_high or 0.0):+.1f} %"
    assert outcome.result.verdict.startswith("keeping default: the best candidate was not shown to be faster")
    assert outcome.result.verdict.endswith(f"(90 % interval of its speed-up {bounds}, 12 pairs)")
    assert 12 == len(record.pairs)
    assert record.speedup is not None
    assert (None, False, False) == (kept.speedup, kept.adopted, outcome.result.adopted)
    assert default_config() == outcome.target.applied[-1]


def test_what_is_just_shown_lies_above_zero_in_the_interval() -> None:
    """A gain that all pairs barely show lies above zero; the record states the interval's level."""
    outcome = tune(Fading(26, -0.006), settings=RunSettings(max_samples=20, warmup_steps=0))

    record, result = adoption(outcome), outcome.result

    assert result.adopted
    assert record.ci_low is not None
    assert 0 < record.ci_low < 0.005
    assert (0.9, 0.9) == (record.ci_level, result.ci_level)
    assert "faster (90 % interval +" in result.verdict
    assert result.verdict.endswith("12 pairs)")


def test_a_hopeless_test_ends_early() -> None:
    """When even the upper bound is below zero, the remaining pairs are spared."""
    outcome = tune(Fading(28, 0.2), settings=RunSettings(max_samples=20, warmup_steps=0))

    assert POLICY.futility_pairs == len(adoption(outcome).pairs)
    assert not outcome.result.adopted


def test_a_void_pair_is_measured_again() -> None:
    """The test still has all its pairs, and no invalid step time is among them."""
    disturbances = Disturbances(void={VoidReason.PAUSE: 0.3})
    outcome = tune(Fading(30, 0.0, disturbances), settings=RunSettings(max_samples=20, warmup_steps=0))

    void = [r for r in outcome.records if isinstance(r, SampleRecord) and r.phase == Phase.ADOPTION and not r.valid]

    assert void
    assert 12 == len(adoption(outcome).pairs)


@pytest.mark.parametrize("max_steps", [100, 200, 600])
def test_a_budget_of_steps_holds_for_the_whole_run(max_steps: int) -> None:
    """Search and adoption share it, settling included, and neither takes all."""
    settings = RunSettings(max_samples=100, max_steps=max_steps, warmup_steps=0, steps_per_sample=10)

    outcome = tune(Fading(1000, 0.0, Disturbances(step_noise=0.05)), settings=settings)

    assert 0.5 * max_steps < outcome.result.steps <= max_steps
    phases = [r.phase for r in outcome.records if isinstance(r, SampleRecord)]
    assert {Phase.BASELINE, Phase.SEARCH, Phase.ADOPTION} == set(phases)


def test_a_test_that_is_always_void_keeps_the_default() -> None:
    """After three times as many attempts as pairs the test is given up."""

    class Pausing(SyntheticTarget):
        """A job that pauses in every window once the search is over."""

        def _void_reason(self) -> VoidReason | None:
            return VoidReason.PAUSE if self._windows > 26 else None

    result = tune(Pausing(baseline=poor_baseline()), settings=RunSettings(warmup_steps=0)).result

    assert "keeping default: only 0 of 12 pairs of the adoption test had valid windows" == result.verdict
    assert poor_baseline() == result.config


class Pauses(SyntheticTarget):
    """A job that pauses in some of its windows, or only in those of them that are the baseline's."""

    def __init__(self, windows: range, *, only_baseline: bool) -> None:
        """Begin with a poor baseline."""
        super().__init__(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.005), seed=3)
        self._pausing = windows
        self._only_baseline = only_baseline

    def _void_reason(self) -> VoidReason | None:
        pauses = not self._only_baseline or self.applied[-1] == poor_baseline()
        return VoidReason.PAUSE if pauses and self._windows in self._pausing else None


def budgeted(windows: range = range(0), *, only_baseline: bool = True) -> Outcome:
    """Tune a job that pauses in some windows, in 100 steps."""
    settings = RunSettings(max_samples=100, max_steps=100, warmup_steps=0, steps_per_sample=10)
    return tune(Pauses(windows, only_baseline=only_baseline), settings=settings)


def windows_up_to_the_first_pair() -> int:
    """Return the number of windows that the same job has measured when the test has its first pair."""
    outcome = budgeted()
    windows = sum(isinstance(record, SampleRecord) for record in outcome.records)
    return windows - 2 * (len(adoption(outcome).pairs) - 1)


def test_without_a_single_whole_pair_the_baseline_is_kept() -> None:
    """Windows of the search are no proof, however plain the gain looks."""
    outcome = budgeted(range(windows_up_to_the_first_pair() - 1, 1000))

    assert not outcome.result.adopted
    because = "keeping default: a decision needs 2 adoption pairs and got 0; 90 of AUTOTUNE_MAX_STEPS="
    assert outcome.result.verdict.startswith(because)
