# SPDX-License-Identifier: Apache-2.0
"""Tests of how much a window tells: by its own steps, and by those of all others."""

from dataclasses import replace

import numpy as np
import pytest

from ringtune.tuner import Phase, Sample, StepTimes, Trial, Window, default_config
from ringtune.tuner.sample import VoidReason
from ringtune.tuner.statistics.step_noise import Scatter


def sample_of(mad: float, steps: int = 10) -> Sample:
    """Return a sample of 20 ms."""
    return Sample(0, default_config(), Phase.SEARCH, 0, 1e6, StepTimes(20.0, mad, 20.0), steps)


def scatter_of(*samples: Sample) -> Scatter:
    """Return that of a single trial."""
    return Scatter.of([Trial(0, default_config(), samples)])


def test_equal_windows_have_their_own_variance() -> None:
    """There is nothing to be drawn to."""
    sample = sample_of(0.2)

    assert scatter_of(sample, sample).log_variance(sample) == pytest.approx(sample.log_variance)
    assert scatter_of(sample, sample).log_variance(sample, 40) == pytest.approx(sample.log_variance / 4)


@pytest.mark.parametrize("mad", [0.0, 1.0])
def test_a_window_is_drawn_to_all_others(mad: float) -> None:
    """One whose steps happen to agree is not sure beyond measure, and one disturbed step does not drop another."""
    odd, usual = sample_of(mad), sample_of(0.2)
    drawn = scatter_of(*[usual] * 9, odd).log_variance(odd)

    assert min(odd.log_variance, usual.log_variance) < drawn < max(odd.log_variance, usual.log_variance)


def test_a_long_window_speaks_for_itself() -> None:
    """A window of many steps gives the scatter by itself."""
    usual = sample_of(0.2, 200)
    own, short = (
        scatter_of(*[usual] * 9, odd).log_variance(odd) / odd.log_variance
        for odd in (sample_of(1.0, 200), sample_of(1.0))
    )

    assert short < own < 1.0
    assert own == pytest.approx(1.0, abs=0.05)


def test_void_windows_say_nothing() -> None:
    """Their steps may be anything."""
    void = replace(sample_of(9.0), reason=VoidReason.PAUSE)

    assert scatter_of(sample_of(0.2)) == scatter_of(sample_of(0.2), void)


def test_weighing_by_it_makes_a_mean_surer_where_windows_are_disturbed() -> None:
    """One window in five scatters by five times as much: the weighed mean of eight has a much smaller error."""
    rng = np.random.default_rng(0)
    stds = np.where(rng.random((1000, 8, 1)) < 0.2, 0.15, 0.03)
    windows = 20.0 * np.exp(rng.normal(0.0, stds, (1000, 8, 10)))
    plain, weighed = [], []
    for eight in windows.tolist():
        samples = [
            Sample.from_window(Window(0, tuple(steps), 1, 1), trial_id=0, config=default_config(), phase=Phase.SEARCH)
            for steps in eight
        ]
        scatter, log_ms = scatter_of(*samples), np.log([sample.typical_ms for sample in samples])
        plain.append(log_ms.mean())
        weighed.append(np.average(log_ms, weights=[1.0 / scatter.log_variance(sample) for sample in samples]))

    assert np.std(weighed) < 0.7 * np.std(plain)
