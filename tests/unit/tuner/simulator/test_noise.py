# SPDX-License-Identifier: Apache-2.0
"""Tests of the noise: its spreads, its late ranks, its drift, and that one seed decides all of it."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from ringtune.tuner.simulator import Noise
from ringtune.tuner.simulator.noise import NoiseStream


def windows(noise: Noise, count: int, *, steps: int = 20, gap_s: float = 1.0) -> NDArray[np.float64]:
    """Return ln of the factors of so many windows, shape (count, steps)."""
    stream = NoiseStream(noise, 4, 1)
    return np.log(np.stack([stream.window(steps, number * gap_s).factors for number in range(count)]))


def test_no_noise_is_exact() -> None:
    """Every factor is 1, no rank is late, no step pauses."""
    draws = NoiseStream(Noise.none(), 1000, 3).window(50, 0.0)

    assert np.all(draws.factors == 1.0)
    assert np.all(draws.slowest == 1.0)
    assert not np.any(draws.has_pause)


def test_one_seed_decides_everything() -> None:
    """The same seed, the same draws; another one, others."""
    noise = Noise(late_chance=0.1, pause_chance=0.1, drift=0.05)
    first, again, other = (NoiseStream(noise, 8, seed).window(100, 5.0) for seed in (7, 7, 8))

    assert np.array_equal(first.factors, again.factors)
    assert np.array_equal(first.slowest, again.slowest)
    assert np.array_equal(first.has_pause, again.has_pause)
    assert not np.array_equal(first.factors, other.factors)


def test_steps_and_windows_spread_as_asked() -> None:
    """Within windows by `step`, between their means by `window`; the median is 1."""
    drawn = windows(Noise(step=0.05, window=0.03), 2000)

    assert drawn.std(axis=1, ddof=1).mean() == pytest.approx(0.05, rel=0.05)
    assert drawn.mean(axis=1).std(ddof=1) == pytest.approx(math.hypot(0.03, 0.05 / math.sqrt(20)), rel=0.06)
    assert abs(np.median(drawn)) < 0.003


@pytest.mark.parametrize("world_size", [1, 64, 4096])
def test_a_step_is_late_when_any_rank_is(world_size: int) -> None:
    """A step is late with chance 1 - (1 - p)^n."""
    chance = 5e-4
    slowest = NoiseStream(Noise(late_chance=chance, late_factor=1.5), world_size, 2).window(40_000, 0.0).slowest
    expected = 1.0 - (1.0 - chance) ** world_size

    assert float(np.mean(slowest > 1.0)) == pytest.approx(expected, abs=4 * math.sqrt(expected / 40_000))


@pytest.mark.parametrize("world_size", [1, 2, 5])
def test_the_latest_of_all_ranks_counts(world_size: int) -> None:
    """If all n are late by an exponential of mean 0.5, the latest is by 0.5 (1 + 1/2 + ... + 1/n)."""
    slowest = NoiseStream(Noise(late_chance=1.0, late_factor=1.5), world_size, 4).window(40_000, 0.0).slowest
    harmonic = sum(1.0 / number for number in range(1, world_size + 1))

    assert float(slowest.mean()) == pytest.approx(1.0 + 0.5 * harmonic, rel=0.02)


def test_pauses_come_as_often_as_asked() -> None:
    """A chance per step."""
    has_pause = NoiseStream(Noise(pause_chance=0.02), 4, 5).window(20_000, 0.0).has_pause

    assert float(has_pause.mean()) == pytest.approx(0.02, rel=0.2)


def test_the_machine_drifts_slowly_and_comes_back() -> None:
    """Windows close in time are alike, those far apart differ by the long-term spread."""
    noise = Noise(step=0.0, window=0.0, drift=0.1, drift_s=100.0)
    close = windows(noise, 4000, steps=1, gap_s=1.0)[:, 0]
    apart = windows(noise, 4000, steps=1, gap_s=1000.0)[:, 0]

    assert float(np.diff(close).std()) == pytest.approx(0.1 * math.sqrt(2 * (1 - math.exp(-0.01))), rel=0.06)
    assert float(apart.std()) == pytest.approx(0.1, rel=0.06)
    assert abs(float(np.corrcoef(apart[:-1], apart[1:])[0, 1])) < 0.06
