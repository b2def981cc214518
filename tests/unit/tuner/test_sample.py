# SPDX-License-Identifier: Apache-2.0
"""Tests of windows, samples and trials."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.tuner import Phase, Sample, StepTimes, Trial, VoidReason, Window, default_config
from ringtune.tuner.sample import TYPICAL_VARIANCE


def judge(window: Window) -> Sample:
    """Return the sample of a window under the default config."""
    return Sample.from_window(window, trial_id=1, config=default_config(), phase=Phase.SEARCH)


def test_score_is_bytes_per_step_over_the_mean_step_time() -> None:
    """Three steps of 1, 2 and 3 ms that reduce 4000 bytes each are 2 MB/s."""
    sample = judge(Window(7, (1.0, 2.0, 3.0), 4000, 1))

    assert sample.valid
    assert pytest.approx(2e6) == sample.score_bytes_per_s
    assert StepTimes(2.0, 1.0, 2.0) == sample.step_times
    assert (7, 3) == (sample.epoch, sample.steps)


@pytest.mark.parametrize("reason", [VoidReason.PAUSE, VoidReason.TENSOR_SET_CHANGED, VoidReason.MIXED_EPOCHS])
def test_a_void_window_is_an_invalid_sample(reason: VoidReason) -> None:
    """The reason is kept, and so are the step times."""
    sample = judge(Window(1, (1.0, 2.0), 4000, 1, reason))

    assert not sample.valid
    assert reason is sample.reason
    assert 1.5 == sample.step_times.mean


@pytest.mark.parametrize(
    ("step_ms", "size"),
    [
        ((), 4000),
        ((1.0, math.nan), 4000),
        ((1.0, math.inf), 4000),
        ((0.0, 0.0), 4000),
        ((1.0, 0.0), 4000),
        ((-1.0, 5.0), 4000),
        ((1.0,), 0),
        ((1.0,), -5),
        pytest.param((1.0,), 10**400, id="more bytes than a float can count"),
        ((1e-320,), 4000),
        ((1e308, 1e308), 4000),
    ],
)
def test_a_score_that_is_no_positive_number_is_invalid(step_ms: tuple[float, ...], size: int) -> None:
    """NaN, infinite, zero and negative scores or times make a sample invalid and never raise."""
    sample = judge(Window(1, step_ms, size, 1))

    assert VoidReason.INVALID_SCORE is sample.reason


@given(st.lists(st.floats(), max_size=5), st.integers())
def test_no_window_raises(step_ms: list[float], size: int) -> None:
    """A valid sample of any numbers is finite and positive; others have a reason."""
    sample = judge(Window(1, tuple(step_ms), size, 1))

    assert not sample.valid or (0 < sample.score_bytes_per_s < math.inf and sample.step_times.median > 0)


def test_a_cut_window_is_valid() -> None:
    """A clearly bad config is known by a few steps."""
    assert judge(Window(1, (9.0, 9.0), 4000, 1, None, was_cut=True)).valid


def test_a_samples_own_noise_falls_with_its_steps() -> None:
    """The variance of ln(typical step time), from the steps' scatter."""
    times = StepTimes(20.0, 0.2, 20.0)
    short, long = (Sample(0, default_config(), Phase.SEARCH, 0, 1e6, times, steps) for steps in (20, 80))

    assert math.isclose(long.log_variance, short.log_variance / 4)
    assert math.isclose(math.sqrt(short.log_variance), 0.01 * 1.4826 * math.sqrt(TYPICAL_VARIANCE / 20))


def test_a_late_step_moves_what_is_typical_by_one_standard_error_at_most() -> None:
    """However late it is; of steps without one it is the mean."""
    even, late = (9.0, 9.5, 10.1, 10.5, 11.0), (9.0, 9.5, 10.1, 10.5, 1000.0)

    assert math.isclose(sum(even) / len(even), judge(Window(1, even, 4000, 1)).typical_ms)
    assert math.isclose(10.1 + 1.4826 * 0.6 / math.sqrt(5), judge(Window(1, late, 4000, 1)).typical_ms)


def test_a_typical_step_is_surer_than_a_median() -> None:
    """The variance for normal numbers is no more than the constant, and below that of a median."""
    windows = np.random.default_rng(0).normal(100.0, 1.0, (4000, 10))
    typical = [judge(Window(1, tuple(steps), 4000, 1)).typical_ms for steps in windows.tolist()]

    assert 10 * np.var(typical) < TYPICAL_VARIANCE
    assert np.var(typical) < 0.8 * np.var(np.median(windows, axis=1))


@pytest.mark.parametrize(("median", "mad"), [(1.0, 1e300), (5e-324, 1.0), (1e-300, 1e300)])
def test_a_scatter_beyond_all_measure_is_a_number_too(median: float, mad: float) -> None:
    """A damaged file may hold it; its square would be none, and the designer would fail."""
    sample = Sample(0, default_config(), Phase.SEARCH, 0, 1e6, StepTimes(median, mad, 1.0), 20)

    assert 1.0 < sample.log_variance < math.inf


def test_a_trial_models_the_log_of_its_valid_typical_steps() -> None:
    """Invalid samples do not contribute."""
    samples = (judge(Window(1, (1.0, 2.0, 9.0), 9, 1)), judge(Window(1, (5.0,), 9, 1, VoidReason.PAUSE)))

    trial = Trial(1, default_config(), samples)

    assert [math.log(samples[0].typical_ms)] == pytest.approx(list(trial.log_step_ms))
    assert trial.is_conclusive
    assert not Trial(1, default_config(), samples[1:]).is_conclusive
