# SPDX-License-Identifier: Apache-2.0
"""Recorded surfaces as problems."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.tuner.regret.problems import Sources, all_problems
from benchmarks.tuner.regret.recorded import recorded_problem, recorded_problems
from ringtune.errors import ConfigError
from ringtune.tuner import Trial, default_config
from tests.unit.benchmarks.tuner.regret.small_surface import CONFIGS, Configs, surface


def test_a_surface_is_a_problem(tmp_path: Path) -> None:
    """The space holds the varied knobs from their least to their largest value; the others are fixed."""
    problem = recorded_problem(surface(tmp_path))

    free = {parameter.name for parameter in problem.table.space.free}
    assert ("recorded_small", "recorded") == (problem.name, problem.kind)
    assert {"fusion_bytes", "cycle_ms"} == free
    assert default_config() == problem.baseline
    assert 10.5 == pytest.approx(problem.baseline_ms)
    assert 13.5 == pytest.approx(problem.step_ms(default_config().replace(CONFIGS[3])))
    assert 1.0 == problem.table.space.parameters[1].low  # type: ignore[union-attr]


def test_a_replayed_job_begins_at_the_default_that_ships(tmp_path: Path) -> None:
    """Between hosts that is the hierarchical allreduce, though the surface was recorded when it was the flat ring."""
    configs: Configs = [*CONFIGS, {"hierarchical_allreduce": True}]

    problem = recorded_problem(surface(tmp_path, slower_by_ms=9.0, ranks_per_host=(2, 2), configs=configs))

    assert default_config((2, 2)) == problem.baseline
    assert problem.baseline == problem.target(0).baseline()
    assert 14.5 == pytest.approx(problem.baseline_ms)
    assert problem.loss(default_config()) > 0.0


def test_a_surface_without_the_default_that_ships_is_refused(tmp_path: Path) -> None:
    """Without the default's time no gain can be computed."""
    with pytest.raises(ConfigError, match="no measurement of today's default.*record the surface again"):
        recorded_problem(surface(tmp_path, ranks_per_host=(2, 2)))


def test_the_cost_model_knows_the_job(tmp_path: Path) -> None:
    """The cost model gets the job's gradients, and the allreduces that it timed when it began."""
    problem = recorded_problem(surface(tmp_path))
    model = problem.cost_model(0)

    assert model is not None
    trials = [Trial(0, problem.baseline)]
    expected = model.log_step_ms([problem.baseline, default_config().replace({"fusion_bytes": 0})], trials)
    assert np.all(np.isfinite(expected))


def test_a_folder_without_surfaces_is_said_and_left_out(tmp_path: Path) -> None:
    """A folder without surfaces is reported and left out, whether it exists or not."""
    assert [] == recorded_problems(tmp_path)
    assert [] == recorded_problems(tmp_path / "none")
    assert "no recorded surfaces" in Sources(tmp_path).missing()[0]


def test_a_broken_surface_is_an_error(tmp_path: Path) -> None:
    """Not a problem less."""
    (tmp_path / "broken.jsonl.gz").write_bytes(b"no gzip")

    with pytest.raises(ConfigError, match="broken"):
        recorded_problems(tmp_path)


def test_a_surface_takes_no_scenarios_place(tmp_path: Path) -> None:
    """A recorded surface and a scenario of the same name are both problems."""
    surface(tmp_path).rename(tmp_path / "manysmall_np2.jsonl.gz")

    problems = all_problems(Sources(tmp_path))

    assert ("simulated", "recorded") == tuple(
        problems[name].kind for name in ("manysmall_np2", "recorded_manysmall_np2")
    )
