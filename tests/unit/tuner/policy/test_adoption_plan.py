# SPDX-License-Identifier: Apache-2.0
"""Tests of how the adoption test uses the steps that are left, and of what they are worth."""

import math

import numpy as np
import pytest

from ringtune.tuner import Trial, default_config
from ringtune.tuner.policy.adoption_plan import AdoptionPlan, best_plan
from ringtune.tuner.policy.belief import Gain
from ringtune.tuner.policy.budget import adoption_steps
from ringtune.tuner.policy.measuring import SHORT_WINDOW_STEPS
from ringtune.tuner.statistics.pair_noise import MIN_PAIRS, PairNoise, expected_pair_noise
from ringtune.tuner.statistics.paired_test import Pair, PairedTest
from ringtune.tuner.testing import measured_trial

USUAL_STEPS, MOST_PAIRS = 10, 12
PAIR_STD = 0.03


def trials() -> list[Trial]:
    """Return those of a baseline that was measured three times and whose steps scatter by 1.5 %."""
    return [measured_trial(0, default_config(), (20.0, 20.2, 19.9))]


def plan(gain: float, steps_left: float) -> AdoptionPlan:
    """Return the plan of that machine."""
    return best_plan(trials(), gain, range(SHORT_WINDOW_STEPS, USUAL_STEPS + 1), steps_left, MOST_PAIRS)


def test_a_large_gain_is_tested_in_short_windows() -> None:
    """Any window shows it, and what short ones save is the search's."""
    assert SHORT_WINDOW_STEPS == plan(1.0, 200).window_steps


@pytest.mark.parametrize("steps_left", range(26, 120, 7))
def test_no_other_windows_would_show_a_gain_more_probably(steps_left: int) -> None:
    """Shorter windows, of which more fit, and longer ones do no better; all pairs fit."""
    best = plan(0.03, steps_left)

    others = [
        AdoptionPlan(steps, pairs, expected_pair_noise(trials(), steps))
        for steps in range(SHORT_WINDOW_STEPS, USUAL_STEPS + 1)
        for pairs in range(MIN_PAIRS, MOST_PAIRS + 1)
        if adoption_steps(pairs, steps) <= steps_left
    ]

    assert best.power(0.03) == max(other.power(0.03) for other in others)
    assert adoption_steps(best.pairs, best.window_steps) <= steps_left


def test_without_a_budget_windows_are_as_usual() -> None:
    """All pairs have room, with windows as usual."""
    free = plan(1.0, math.inf)

    assert (USUAL_STEPS, MOST_PAIRS) == (free.window_steps, free.pairs)


def test_too_few_steps_for_two_pairs_are_worth_nothing() -> None:
    """An interval needs two."""
    short = plan(1.0, adoption_steps(MIN_PAIRS, SHORT_WINDOW_STEPS) - 1)

    assert short.pairs < MIN_PAIRS
    assert 0.0 == short.value(Gain(1.0, 0.1))


@pytest.mark.parametrize("pairs", [2, 3, 6])
@pytest.mark.parametrize("gain", [0.0, 0.04, 0.08])
def test_power_is_the_share_of_tests_that_show_the_gain(pairs: int, gain: float) -> None:
    """The power agrees with simulated pairs within the error of an approximation to Student's noncentral t."""
    rng, noise = np.random.default_rng(0), PairNoise(PAIR_STD**2)
    shown = 0
    for _ in range(1000):
        test = PairedTest(noise, [Pair(math.exp(d), 1.0, PAIR_STD**2) for d in rng.normal(gain, PAIR_STD, pairs)])
        shown += test.is_shown

    assert abs(AdoptionPlan(USUAL_STEPS, pairs, noise).power(gain) - shown / 1000) < 0.08


def test_value_grows_with_the_gain_and_with_the_steps() -> None:
    """A gain that none of the pairs can show is worth little, one that is plain as much as it is."""
    small, large = plan(0.01, 60), plan(0.5, 60)

    assert 0.0 < small.value(Gain(0.01, 0.005)) < 0.5 * 0.01
    assert math.isclose(0.5, large.value(Gain(0.5, 0.0)), rel_tol=1e-3)
    assert plan(0.03, 150).value(Gain(0.03, 0.01)) > plan(0.03, 60).value(Gain(0.03, 0.01))
