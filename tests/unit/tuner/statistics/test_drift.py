# SPDX-License-Identifier: Apache-2.0
"""Tests of the drift detector: its rate of false alarms, its delay, and the disturbances that it ignores."""

import math
from collections.abc import Iterable

import numpy as np
import pytest

from ringtune.tuner.statistics.drift import (
    FALSE_ALARM_WINDOWS,
    LASTING_WINDOWS,
    REFERENCE_WINDOWS,
    DriftDetector,
    cusum_limit,
)


def alarm(y: Iterable[float]) -> int | None:
    """Return the index of the window at which ln(step times) are said to have moved, or None."""
    detector = DriftDetector()
    for index, value in enumerate(y):
        detector.add(math.exp(value))
        if detector.has_moved:
            return index
    return None


@pytest.mark.parametrize("std", [0.003, 0.015, 0.06])
def test_false_alarms_are_as_rare_as_stated(std: float) -> None:
    """False alarms in 40 series of normal noise, 80,000 windows in all, are at most twice the stated rate."""
    rng = np.random.default_rng(1)
    windows = 2000

    alarms = sum(alarm(rng.normal(3.0, std, REFERENCE_WINDOWS + windows)) is not None for _ in range(40))

    assert alarms <= 2 * 40 * windows / FALSE_ALARM_WINDOWS


def test_the_limit_keeps_the_stated_mean_time_to_a_false_alarm() -> None:
    """Simulated with known mean and spread, a one-sided sum runs for as long as the formula says, within a quarter."""
    rng = np.random.default_rng(2)
    limit = cusum_limit(0.5, 500)
    runs = []
    for _ in range(200):
        total, count = 0.0, 0
        while total < limit:
            total, count = max(total + rng.normal() - 0.5, 0.0), count + 1
        runs.append(count)

    assert pytest.approx(500, rel=0.25) == np.mean(runs)


@pytest.mark.parametrize("move", [0.1, -0.1, 0.4])
def test_a_lasting_move_is_seen_within_ten_windows(move: float) -> None:
    """In 20 of 20 series of 1.5 % noise, up or down; and the ratio is about right."""
    rng = np.random.default_rng(3)
    delays = []
    for _ in range(20):
        y = rng.normal(3.0, 0.015, 200)
        y[100:] += move
        at = alarm(y)
        assert at is not None
        delays.append(at - 99)

    assert LASTING_WINDOWS <= min(delays)
    assert max(delays) <= 10


def test_the_ratio_is_that_of_the_newest_windows() -> None:
    """Steps of twice the time have the ratio 2."""
    detector = DriftDetector()
    for median_ms in [10.0] * REFERENCE_WINDOWS + [20.0] * LASTING_WINDOWS:
        detector.add(median_ms)

    assert detector.has_moved
    assert pytest.approx(2.0) == detector.ratio


def test_outliers_and_short_moves_are_no_drift() -> None:
    """Four windows in a row of ten times the time, or one in ten of three times, raise no alarm."""
    rng = np.random.default_rng(4)
    burst, sparse = rng.normal(3.0, 0.01, 400), rng.normal(3.0, 0.01, 400)
    burst[100:104] += math.log(10.0)
    sparse[::10] += math.log(3.0)

    assert alarm(burst) is None
    assert alarm(sparse) is None


def test_a_move_that_goes_back_is_forgotten() -> None:
    """An alarm ends after as many windows of the old time."""
    detector = DriftDetector()
    for median_ms in [10.0] * REFERENCE_WINDOWS + [12.0] * 30:
        detector.add(median_ms)
    had_moved = detector.has_moved

    for _ in range(LASTING_WINDOWS):
        detector.add(10.0)

    assert had_moved
    assert not detector.has_moved


def test_however_long_a_move_lasts_it_can_go_back_soon() -> None:
    """A move of 300 windows under noise of 6 % is forgotten in a few dozen."""
    noise = [0.06 * (-1) ** n for n in range(400)]
    detector = DriftDetector()
    for n, y in enumerate(noise):
        detector.add(math.exp(y + (0.5 if n >= REFERENCE_WINDOWS else 0.0)))
    had_moved = detector.has_moved

    for y in noise[:24]:
        detector.add(math.exp(y))

    assert had_moved
    assert not detector.has_moved


def test_a_move_below_the_allowance_is_none() -> None:
    """Two percent more for ever is not worth a search."""
    y = [3.0] * 100 + [3.02] * 2000

    assert alarm(y) is None
