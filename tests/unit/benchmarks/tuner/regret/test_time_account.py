# SPDX-License-Identifier: Apache-2.0
"""Costs of windows next to those of the baseline."""

import pytest

from benchmarks.tuner.regret.simulated import SimulatedProblem
from benchmarks.tuner.regret.table import TableProblem
from benchmarks.tuner.regret.time_account import TimeAccount
from ringtune.tuner import WindowSpec
from ringtune.tuner.simulator import Cluster, Noise, Scenario
from tests.unit.benchmarks.tuner.regret.small_table import KIB, TABLE, config
from tests.unit.tuner.simulator.jobs import job_of

PROBLEM = TableProblem(TABLE, has_noise=False)


def test_slower_steps_are_a_slow_down_and_later_ones_a_cost() -> None:
    """The second of two windows begins after the first minute; settling steps count."""
    account = TimeAccount(PROBLEM.target(0), PROBLEM.baseline_ms)
    next(account.windows(WindowSpec(account.apply(config(64 * KIB, 1.0)), 0, 6000, 0.0)))

    next(account.windows(WindowSpec(account.apply(config(1024 * KIB, 1.0)), 2, 98, 0.0)))

    assert (60.0 + 4.0) / (60.0 + 1.0) - 1.0 == pytest.approx(account.slow_down)
    assert 0.75 == pytest.approx(account.later_cost)


def test_a_pause_is_no_cost() -> None:
    """No config is to blame for it; the minute goes by meanwhile."""
    noise = Noise(step=0.0, window=0.0, pause_chance=1.0, pause_s=100.0)
    problem = SimulatedProblem(Scenario("paused", job_of(4096, 1 << 20), Cluster(1, 2, 2), noise=noise))
    account = TimeAccount(problem.target(0), problem.baseline_ms)
    windows = account.windows(WindowSpec(account.apply(problem.baseline), 2, 3, 0.0))

    next(windows)
    next(windows)

    assert account.now_s > 600.0
    assert account.slow_down == pytest.approx(0.0)
    assert account.later.taken_s == pytest.approx(3e-3 * problem.baseline_ms)
    assert account.later_cost == pytest.approx(0.0)
