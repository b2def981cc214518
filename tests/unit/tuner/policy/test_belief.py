# SPDX-License-Identifier: Apache-2.0
"""Tests of what a designer believes the best config to be worth, now and after a sample of its suggestion."""

from statistics import fmean

import numpy as np
import pytest

from ringtune.tuner.policy.belief import NORMALS, Belief, Gain

CALM, NOISY = 1e-6, 1e-2


def independent(means: list[float], stds: list[float]) -> Belief:
    """Return a belief of configs that have nothing unknown in common."""
    return Belief(np.array(means), np.diag(np.array(stds) ** 2))


def test_the_gain_is_that_of_the_lowest_mean_and_as_unsure_as_both() -> None:
    """The suggestion, the last one, is not measured yet: it is no pick."""
    gain = independent([1.0, 0.8, 0.5], [0.03, 0.04, 0.1]).gain()

    assert pytest.approx(Gain(0.2, 0.05)) == gain


def test_the_baseline_gains_nothing_over_itself() -> None:
    """The gain of the baseline over itself is surely zero, however little is known of it."""
    assert Gain(0.0, 0.0) == independent([0.5, 0.8, 0.7], [0.3, 0.1, 0.1]).gain()


def test_what_is_unknown_of_both_makes_no_gain_unsure() -> None:
    """A machine that may be slower as a whole is slower with either config."""
    shared = Belief(np.array([1.0, 0.8, 0.9]), np.full((3, 3), 0.09))

    assert pytest.approx(0.0, abs=1e-6) == shared.gain().std


def test_a_surely_worse_suggestion_changes_nothing() -> None:
    """Each of its outcomes leaves the pick as it is."""
    belief = independent([1.0, 0.8, 2.0], [0.02, 0.02, 0.1])

    assert [belief.gain()] * len(NORMALS) == [pytest.approx(gain) for gain in belief.gains_after(CALM)]


def test_of_a_suggestion_that_may_be_either_the_good_half_is_picked() -> None:
    """The other half leaves the pick as it is; what was unknown of the suggestion then is not."""
    gains = independent([1.0, 0.8, 0.8], [0.0, 0.02, 0.1]).gains_after(CALM)

    half = len(gains) // 2
    assert [0.2] * half == [pytest.approx(gain.mean) for gain in gains[half + 1 :]]
    assert [0.02] * half == [pytest.approx(gain.std) for gain in gains[half + 1 :]]
    assert all(gain.mean > 0.21 and gain.std < 0.01 for gain in gains[:half])


def test_another_sample_of_the_pick_promises_nothing() -> None:
    """The pick stays the pick, and on average its value stays."""
    covariance = np.array([[0.0, 0.0, 0.0], [0.0, 0.01, 0.01], [0.0, 0.01, 0.01]])
    belief = Belief(np.array([1.0, 0.6, 0.6]), covariance)

    gains = belief.gains_after(0.01)

    assert pytest.approx(belief.gain().mean) == fmean(gain.mean for gain in gains)
    assert all(gain.std < belief.gain().std for gain in gains)


def test_what_is_picked_now_is_worth_what_the_outcomes_of_a_sample_of_it_say() -> None:
    """A sample that changes no pick has a value of zero; kept, no other is picked."""
    covariance = np.array([[0.0, 0.0, 0.0], [0.0, 0.01, 0.008], [0.0, 0.008, 0.01]])
    near, promising = Belief(np.array([1.0, 0.6, 0.9]), covariance), Belief(np.array([1.0, 0.6, 0.55]), covariance)

    assert near.gains_after(NOISY) == near.gains_if_kept(NOISY)
    assert pytest.approx(0.4) == fmean(gain.mean for gain in promising.gains_if_kept(NOISY))
    assert fmean(gain.mean for gain in promising.gains_after(NOISY)) > 0.44


def test_a_noisy_sample_tells_little() -> None:
    """A noisy sample leaves much unknown, and has little value."""
    belief = independent([1.0, 0.8, 0.8], [0.0, 0.0, 0.02])
    calm, noisy = (max(belief.gains_after(noise)) for noise in (CALM, NOISY))

    assert noisy.mean - 0.2 < 0.5 * (calm.mean - 0.2)
    assert noisy.std > 0.9 * 0.02 > calm.std


def test_who_is_less_sure_expects_the_same_of_the_pick_and_more_of_a_sample() -> None:
    """All standard deviations are larger alike."""
    belief = independent([1.0, 0.8, 0.8], [0.03, 0.04, 0.1])
    doubting = belief.less_sure(2.0)

    assert pytest.approx(Gain(0.2, 0.1)) == doubting.gain()
    assert max(doubting.gains_after(NOISY)).mean > max(belief.gains_after(NOISY)).mean
