# SPDX-License-Identifier: Apache-2.0
"""Tests of the noise model: its update by hand, the part of the steps, and its estimate on a noisy machine."""

import math
from dataclasses import replace

import numpy as np
import pytest

from ringtune.tuner import Phase, Sample, StepTimes, Trial, Window, default_config
from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import MAD_TO_STD, TYPICAL_VARIANCE, VoidReason
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.testing import poor_baseline

NUMBERS = Policy(window_std=0.01, noise_weight=4.0)
BETWEEN = 1e-4
"""Variance of windows beyond their steps' scatter under NUMBERS."""


def sample_of(log_ms: float, step_variance: float = 0.0, steps: int = 10) -> Sample:
    """Return a window of a given ln(step time), whose steps have a given variance."""
    median = math.exp(log_ms)
    mad = median * math.sqrt(step_variance / TYPICAL_VARIANCE) / MAD_TO_STD
    return Sample(0, default_config(), Phase.SEARCH, 0, 1e6, StepTimes(median, mad, median), steps)


def trial_of(*samples: Sample, number: int = 0) -> Trial:
    """Return a trial with these windows."""
    return Trial(number, default_config() if number == 0 else poor_baseline(), samples)


def inflation_of(*trials: Trial, policy: Policy = NUMBERS) -> float:
    """Return phi of these trials."""
    return WindowNoise.of(trials, policy).inflation


def test_a_single_window_leaves_the_prior_as_it_is() -> None:
    """Without a repeated window phi is 1, and a window varies by its steps and by the prior."""
    noise = WindowNoise.of([trial_of(sample_of(3.0, 0.002))], NUMBERS)

    assert 1.0 == noise.inflation
    assert 4.0 == noise.weight
    assert noise.step_variance == pytest.approx(0.002)
    assert noise.window_variance(20) == pytest.approx(0.002 / 20 + BETWEEN)


def test_repeated_windows_update_the_inflation_as_by_hand() -> None:
    """Two windows that lie 0.04 apart have S = 2 * 0.02^2 / 0.01^2 = 8, so that phi is (4 + 8) / (4 + 1)."""
    noise = WindowNoise.of([trial_of(sample_of(3.0), sample_of(3.04))], NUMBERS)

    assert noise.inflation == pytest.approx(2.4)
    assert noise.window_variance(10) == pytest.approx(2.4 * BETWEEN)
    assert noise.pair_variance(10) == pytest.approx(2 * 2.4 * BETWEEN)


def test_windows_of_different_lengths_are_weighed_by_their_steps() -> None:
    """Variances of 2e-4 and 5e-4, 0.07 apart, give S = 0.07^2 * 5000 * 2000 / 7000 = 7, by hand."""
    trial = trial_of(sample_of(3.0, 0.002, steps=20), sample_of(3.07, 0.002, steps=5))

    assert inflation_of(trial) == pytest.approx((4 + 7) / (4 + 1))


def test_every_config_is_compared_with_its_own_mean() -> None:
    """Two configs a factor of e apart add their squares and their repeats; a third with one window adds none."""
    calm, wild = trial_of(sample_of(3.0), sample_of(3.04)), trial_of(sample_of(4.0), sample_of(4.08), number=1)

    assert inflation_of(calm, wild) == pytest.approx((4 + 8 + 32) / (4 + 1 + 1))
    assert inflation_of(calm, trial_of(sample_of(9.0), number=1)) == inflation_of(calm)


def test_three_windows_of_one_config_are_two_repeats() -> None:
    """Windows of 3.00, 3.02 and 3.04 have squares of 2 * 0.02^2 / 0.01^2 = 8 about their mean, by hand."""
    assert inflation_of(trial_of(sample_of(3.0), sample_of(3.02), sample_of(3.04))) == pytest.approx((4 + 8) / (4 + 2))


@pytest.mark.parametrize("windows", [2, 3, 50])
def test_windows_that_agree_never_make_noise_smaller_than_the_prior(windows: int) -> None:
    """The inflation stays 1: equal medians of few windows are luck, and of many a clock too coarse to differ."""
    assert 1.0 == inflation_of(trial_of(*[sample_of(3.0)] * windows))


def test_the_more_the_prior_weighs_the_less_windows_move_it() -> None:
    """The same two windows inflate noise by 3.3 at a weight of 2, and by hand by (40 + 8) / 41 at a weight of 40."""
    trial = trial_of(sample_of(3.0), sample_of(3.04))
    light, heavy = (inflation_of(trial, policy=Policy(window_std=0.01, noise_weight=nu)) for nu in (2.0, 40.0))

    assert (light, heavy) == pytest.approx((10 / 3, 48 / 41))


def test_windows_whose_steps_scatter_may_differ() -> None:
    """The same distance between two windows inflates noise less where their steps explain it."""
    calm, noisy = (
        inflation_of(trial_of(sample_of(3.0, variance), sample_of(3.04, variance))) for variance in (0.0, 0.01)
    )

    assert 1.0 == noisy
    assert calm > 2.0


def test_longer_windows_scatter_less_down_to_a_floor() -> None:
    """Four times the steps leave a quarter of the steps' part; the variance between windows stays, inflated."""
    noise = WindowNoise(step_variance=0.002, between_variance=BETWEEN, inflation=3.0)

    parts = [noise.window_variance(steps) - 3.0 * BETWEEN for steps in (5, 20)]

    assert parts == pytest.approx([3.0 * 0.002 / 5, 3.0 * 0.002 / 20])
    assert noise.window_variance(10**9) == pytest.approx(3.0 * BETWEEN)
    assert noise.window_variance(0) == noise.window_variance(1)


def test_the_scatter_of_steps_is_the_mean_of_all_windows() -> None:
    """Windows of any config count, each once."""
    trials = [trial_of(sample_of(3.0, 0.001), sample_of(3.0, 0.002)), trial_of(sample_of(4.0, 0.006), number=1)]

    assert WindowNoise.of(trials, NUMBERS).step_variance == pytest.approx(0.003)


def test_void_windows_count_for_nothing() -> None:
    """A void window changes neither the scatter of steps nor the inflation."""
    void = replace(sample_of(5.0, 0.5), reason=VoidReason.PAUSE)
    windows = sample_of(3.0, 0.001), sample_of(3.04, 0.001)

    assert WindowNoise.of([trial_of(*windows)], NUMBERS) == WindowNoise.of([trial_of(*windows, void)], NUMBERS)


def window_of(rng: np.random.Generator, window_std: float, step_std: float, steps: int = 20) -> Sample:
    """Return a window drawn at random about 20 ms."""
    step_ms = 20.0 * np.exp(rng.normal(0.0, window_std) + rng.normal(0.0, step_std, steps))
    window = Window(0, tuple(step_ms.tolist()), 1, 1)
    return Sample.from_window(window, trial_id=0, config=default_config(), phase=Phase.SEARCH)


@pytest.mark.parametrize(("window_std", "step_std"), [(0.03, 0.02), (0.008, 0.05), (0.05, 0.001)])
def test_after_many_windows_the_noise_is_that_of_the_machine(window_std: float, step_std: float) -> None:
    """The variance of 600 windows of one config is estimated within a quarter, whichever part is larger."""
    rng = np.random.default_rng(7)
    samples = [window_of(rng, window_std, step_std) for _ in range(600)]

    noise = WindowNoise.of([trial_of(*samples)])

    true = float(np.var([math.log(sample.typical_ms) for sample in samples]))
    assert true == pytest.approx(noise.window_variance(20), rel=0.25)


def test_a_few_windows_already_show_a_noisy_machine() -> None:
    """Nine in ten of 200 baselines with five windows that differ by 3 % double the usual variance."""
    rng = np.random.default_rng(8)

    trials = [trial_of(*[window_of(rng, 0.03, 0.01) for _ in range(5)]) for _ in range(200)]

    assert sum(inflation_of(trial, policy=POLICY) > 2.0 for trial in trials) > 180
