# SPDX-License-Identifier: Apache-2.0
"""The committed gains are those over the default that ships."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from benchmarks.tuner.regret.gains import Gain, gain_of, own_problems, read_gains, shipped_default, write_gains
from benchmarks.tuner.regret.problem import FLAT_GAIN, Problem
from benchmarks.tuner.regret.recorded import recorded_problem
from benchmarks.tuner.regret.simulated import SimulatedProblem
from ringtune.tuner import Config
from tests.unit.benchmarks.tuner.regret.small_surface import surface

MADE_AGAIN = "run python -m benchmarks.tuner.regret.gains, then python -m benchmarks.tuner.regret.tables"


@pytest.fixture(scope="module")
def problems() -> Mapping[str, Problem]:
    """Return this engine's jobs by name."""
    return {problem.name: problem for problem in own_problems()}


@pytest.fixture(scope="module")
def gains() -> Mapping[str, Gain]:
    """Return the committed rows by problem."""
    return {row.problem: row for row in read_gains()}


def test_each_row_is_measured_against_the_default_that_ships(
    problems: Mapping[str, Problem], gains: Mapping[str, Gain]
) -> None:
    """A change of `default_config()` has to compute the rows again; every job of this engine has one."""
    assert set(problems) == set(gains)
    stale = [name for name, problem in problems.items() if shipped_default(problem) != gains[name].default]
    assert [] == stale, MADE_AGAIN
    assert all(gains[name].default.replace(gains[name].settings) == job.baseline for name, job in problems.items())


def test_the_steps_of_each_row_are_those_of_its_configs(
    problems: Mapping[str, Problem], gains: Mapping[str, Gain]
) -> None:
    """Without a search: the recorded configs have the recorded step times, and tables name no other gains."""
    for name, problem in problems.items():
        row = gains[name]
        found = [problem.step_ms(problem.baseline), problem.step_ms(row.best)]
        assert pytest.approx(found, abs=1e-4) == [row.begin_ms, row.best_ms], f"{name}: {MADE_AGAIN}"


def test_a_scenario_is_flat_where_its_gain_is_small(problems: Mapping[str, Problem], gains: Mapping[str, Gain]) -> None:
    """The committed rows agree with the scenarios' own mark `is_flat`."""
    scenarios = [problem for problem in problems.values() if isinstance(problem, SimulatedProblem)]

    assert [job.is_flat for job in scenarios] == [gains[job.name].gain < FLAT_GAIN for job in scenarios]


def test_rows_are_read_as_they_were_written(tmp_path: Path) -> None:
    """A recorded surface has its best cell beside the default, and no settings."""
    row = gain_of(recorded_problem(surface(tmp_path, slower_by_ms=3.0)))

    write_gains([row], tmp_path / "gains.csv")

    assert [row] == read_gains(tmp_path / "gains.csv")
    assert (1, 2, Config({})) == (row.hosts, row.ranks, row.settings)
    assert row.best["cycle_ms"] == 5.0
    assert pytest.approx(row.begin_ms / row.best_ms - 1.0) == row.gain
