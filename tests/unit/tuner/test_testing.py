# SPDX-License-Identifier: Apache-2.0
"""Tests of the package for tests: the synthetic target behaves like a job."""

import math

import numpy as np
import pytest

from ringtune.tuner import TargetClosed, VoidReason, WindowSpec, default_config, search_space
from ringtune.tuner.testing import Disturbances, SyntheticTarget, coarse_grid, engine_like_surface, poor_baseline


def test_step_times_scatter_around_the_surface() -> None:
    """The median over many steps is the surface's, the scatter is the noise asked for."""
    target = SyntheticTarget(disturbances=Disturbances(window_noise=0.0))
    epoch = target.apply(default_config())

    window = next(target.windows(WindowSpec(epoch, 0, 4000, 0.0)))

    logs = np.log(window.step_ms)
    assert engine_like_surface(default_config()) == pytest.approx(float(np.median(logs)), abs=0.005)
    assert 0.04 == pytest.approx(float(np.std(logs)), abs=0.003)
    assert target.clock() == pytest.approx(sum(window.step_ms) * 1e-3)


def test_the_poor_baseline_leaves_much_to_gain() -> None:
    """The best of the grid is more than twice as fast; the built-in default is in between."""
    target = SyntheticTarget(baseline=poor_baseline())

    best = max(target.true_speedup(config) for config in coarse_grid(target.space()))

    assert 1.0 < target.true_speedup(default_config()) < best
    assert 0.0 == target.true_speedup(poor_baseline())


def test_disturbances_come_as_often_as_asked() -> None:
    """Each reason at its chance; an invalid score shows as NaN and zero bytes."""
    void = {VoidReason.PAUSE: 0.2, VoidReason.INVALID_SCORE: 0.3}
    target = SyntheticTarget(disturbances=Disturbances(void=void))
    windows = target.windows(WindowSpec(target.apply(default_config()), 0, 2, 0.0))

    seen = [next(windows) for _ in range(1000)]

    assert 150 < sum(window.void_reason is VoidReason.PAUSE for window in seen) < 250
    assert 240 < sum(math.isnan(window.step_ms[0]) and window.bytes_per_step == 0 for window in seen) < 360


def test_the_job_ends_when_told() -> None:
    """After its windows it is closed."""
    target = SyntheticTarget(disturbances=Disturbances(closes_after_windows=2))
    windows = target.windows(WindowSpec(target.apply(default_config()), 0, 2, 0.0))
    next(windows)
    next(windows)

    with pytest.raises(TargetClosed):
        next(windows)


def test_the_grid_is_legal_and_has_no_twins() -> None:
    """Every combination once."""
    space = search_space({}, default_config())

    grid = coarse_grid(space, 3)

    assert len(set(grid)) == len(grid) == 3 * 3 * 2 * 3
    assert all(space.contains(config) for config in grid)
