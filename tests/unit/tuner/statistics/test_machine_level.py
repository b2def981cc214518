# SPDX-License-Identifier: Apache-2.0
"""Tests of a machine's level over a run: steps and slow drift are found, and a steady machine is left alone."""

import math
from collections.abc import Sequence

import numpy as np
import pytest

from ringtune.tuner.statistics.machine_level import Shift, machine_shifts, spread

EVERY = 4
"""Windows from one of the baseline to the next."""
LEAST = 1e-4
SLOWER = math.log(2.0)


def shifts_after(baseline: Sequence[float]) -> list[Shift] | None:
    """Return the shifts of a run in which every fourth window is one of the baseline, with this ln(step time)."""
    windows = [(EVERY * number, y) for number, y in enumerate(baseline)]
    return machine_shifts(windows, EVERY * len(baseline), LEAST)


def jitter(seed: int, count: int, std: float = 0.01) -> list[float]:
    """Return noise of baseline windows."""
    return [float(x) for x in np.random.default_rng(seed).normal(0.0, std, count)]


@pytest.mark.parametrize("std", [0.002, 0.03, 0.2])
def test_a_steady_machine_is_left_alone(std: float) -> None:
    """Noise of any size is no drift; one run in a thousand has one by chance."""
    found = sum(shifts_after(jitter(seed, 4 + seed % 12, std)) is not None for seed in range(500))

    assert found <= 2


@pytest.mark.parametrize("seed", range(5))
def test_a_machine_that_halves_its_speed_has_two_levels(seed: int) -> None:
    """Windows before the step lie ln(2) below the newest, those after it are as they are."""
    noise = jitter(seed, 8)

    shifts = shifts_after([*noise[:5], *(SLOWER + y for y in noise[5:])])

    assert shifts is not None
    assert pytest.approx(-SLOWER, abs=0.03) == shifts[0].level
    assert shifts[0] == shifts[4 * EVERY]
    assert Shift(0.0, 0.0) == shifts[-1]


def test_the_moment_of_a_step_is_not_known() -> None:
    """Windows between the last baseline window before it and the first one after it have a large variance."""
    noise = jitter(0, 8)

    shifts = shifts_after([*noise[:5], *(SLOWER + y for y in noise[5:])])

    assert shifts is not None
    between = shifts[4 * EVERY + 1 : 5 * EVERY]
    assert all(0.05 < shift.variance < 0.15 and -SLOWER < shift.level < 0.0 for shift in between)
    assert {0.0} == {shift.variance for shift in (*shifts[: 4 * EVERY + 1], *shifts[5 * EVERY :])}


def test_slow_drift_is_a_line() -> None:
    """Each window is compared with the line beside it; the newest baseline window is the reference."""
    shifts = shifts_after([0.1 * number + y for number, y in enumerate(jitter(1, 8))])

    assert shifts is not None
    assert pytest.approx(-0.7, abs=0.05) == shifts[0].level
    assert pytest.approx(-0.35, abs=0.05) == shifts[14].level
    assert pytest.approx(0.7, abs=0.05) == spread(shifts)


def test_several_steps_are_found() -> None:
    """A neighbour comes and goes."""
    noise = jitter(2, 12)

    shifts = shifts_after([y + (SLOWER if 4 <= number < 8 else 0.0) for number, y in enumerate(noise)])

    assert shifts is not None
    levels = [shifts[EVERY * number].level for number in (0, 5, 11)]
    assert pytest.approx([0.0, SLOWER, 0.0], abs=0.03) == levels


def test_a_single_slow_window_is_an_outlier() -> None:
    """A moment's load may have slowed it, and it is no evidence about the windows beside it."""
    assert shifts_after([*jitter(3, 5), SLOWER]) is None
    assert shifts_after([*jitter(3, 3), SLOWER, *jitter(4, 3)]) is None


def test_few_windows_show_no_drift() -> None:
    """A machine's drift is unknown without a baseline, or with three windows of it."""
    assert shifts_after([]) is None
    assert shifts_after([0.0, 0.0, 1.0]) is None
