# SPDX-License-Identifier: Apache-2.0
"""Tables as problems: the true times between the cells, and the windows whose noise is drawn."""

import math
from itertools import islice

import numpy as np
import pytest

from benchmarks.tuner.regret.table import Table, TableProblem
from ringtune.tuner import Config, WindowSpec
from tests.unit.benchmarks.tuner.regret.small_table import CELLS, KIB, SPACE, TABLE, config

PROBLEM = TableProblem(TABLE)


@pytest.mark.parametrize("at", CELLS)
def test_a_cell_is_what_was_measured(at: Config) -> None:
    """The median of its windows' medians."""
    assert TABLE.cell_ms[at] == pytest.approx(PROBLEM.step_ms(at))


def test_between_cells_the_logarithm_is_interpolated() -> None:
    """On the parameter's scale: halfway between 64 KiB and 1 MiB lies 256 KiB, between 1 and 100 ms lie 10."""
    assert math.sqrt(10.0 * 40.0) == pytest.approx(PROBLEM.step_ms(config(256 * KIB, 1.0)))
    assert (10.0 * 40.0 * 22.0 * 80.0) ** 0.25 == pytest.approx(PROBLEM.step_ms(config(256 * KIB, 10.0)))


def test_a_special_value_is_never_between() -> None:
    """Off is as off was measured, or as the nearest cell with off where it was not."""
    assert 7.0 == pytest.approx(PROBLEM.step_ms(config(0, 1.0)))
    assert 7.0 == pytest.approx(PROBLEM.step_ms(config(0, 55.0)))


def test_what_was_not_measured_is_as_the_nearest_that_was() -> None:
    """A cell that was not measured takes the value of the nearest one with the same switch, however far."""
    assert 5.0 == pytest.approx(PROBLEM.step_ms(config(1024 * KIB, 100.0, is_on=True)))


def test_no_config_is_faster_than_the_fastest_cell() -> None:
    """The optimum is exact, for no config is faster than the fastest cell."""
    rng = np.random.default_rng(0)

    fastest = min(PROBLEM.step_ms(SPACE.random(rng)) for _ in range(500))

    assert 5.0 == PROBLEM.optimum_ms
    assert 5.0 - 1e-9 <= fastest


def test_steps_are_drawn_in_a_row_from_a_window_under_the_same_switches() -> None:
    """Steps scale with the true time of their cell; a window may be longer than the measured one."""
    target = PROBLEM.target(3)
    epoch = target.apply(config(64 * KIB, 90.0))

    windows = list(islice(target.windows(WindowSpec(epoch, 0, 4, 0.0)), 300))

    at_ms = PROBLEM.step_ms(config(64 * KIB, 90.0))
    rows = {tuple(round(ms / at_ms, 3) for ms in window.step_ms) for window in windows}
    up = (0.909, 1.0, 1.091)  # 20, 22 and 24 ms
    late = (1.0, 1.0, 1.2)  # 10, 10 and 12 ms
    expected = {tuple(row[(start + i) % 3] for i in range(4)) for row in (up, late) for start in range(3)}
    assert expected | {(1.0,) * 4} == rows
    assert sum(sum(window.step_ms) for window in windows) * 1e-3 == pytest.approx(target.now_s)


def test_what_was_measured_under_another_switch_is_no_noise_here() -> None:
    """A switch may make steps scatter."""
    target = PROBLEM.target(3)
    epoch = target.apply(config(64 * KIB, 1.0, is_on=True))

    windows = list(islice(target.windows(WindowSpec(epoch, 0, 4, 0.0)), 20))

    assert all(pytest.approx(window.step_ms) == (5.0,) * 4 for window in windows)


def test_what_was_measured_with_a_special_value_is_no_noise_elsewhere() -> None:
    """A thousand small messages scatter as no large one does."""
    cells = {**CELLS, config(0, 1.0): ((7.0,), (70.0,), (7.0,))}
    table = Table("t", "public", SPACE, config(64 * KIB, 1.0), cells, 1)

    off, on = (np.concatenate(table.noise_at(config(fusion, 1.0))) for fusion in (0, 64 * KIB))

    assert off.max() > 5.0
    assert on.max() < 2.0


def test_a_window_over_the_limit_is_cut() -> None:
    """After a few steps, and only their time is spent."""
    target = PROBLEM.target(0)
    epoch = target.apply(config(1024 * KIB, 100.0))

    window = next(target.windows(WindowSpec(epoch, 2, 10, 50.0)))

    assert window.was_cut
    assert 3 == len(window.step_ms)
    assert 0.080 * 5 == pytest.approx(target.now_s)


def test_without_noise_every_step_is_true() -> None:
    """A noise of zero leaves all else unchanged."""
    target = PROBLEM.without_noise.target(0)

    window = next(target.windows(WindowSpec(target.apply(config(64 * KIB, 1.0)), 0, 5, 0.0)))

    assert pytest.approx(window.step_ms) == (10.0,) * 5
