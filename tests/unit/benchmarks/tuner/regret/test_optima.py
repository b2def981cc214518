# SPDX-License-Identifier: Apache-2.0
"""Tests of the kept optima: found once, named by a digest of their inputs, and never slower than a config seen."""

import json
from dataclasses import replace
from pathlib import Path

from benchmarks.tuner.regret.optima import optimum_ms
from ringtune.tuner import Config
from ringtune.tuner.simulator import Cluster, Noise, Scenario
from ringtune.tuner.testing import coarse_grid
from tests.unit.tuner.simulator.jobs import job_of

SCENARIO = Scenario("small", job_of(4096, 1 << 20, 4096), Cluster(1, 2, 2))


def test_no_config_of_a_grid_is_better_than_the_optimum(tmp_path: Path) -> None:
    """The optimum is no worse than the grid's configs and the baseline."""
    target = SCENARIO.target(0)

    found_ms = optimum_ms(SCENARIO, tmp_path)

    assert found_ms <= min(target.step_ms(config) for config in [*coarse_grid(target.space()), target.baseline()])


def test_the_optimum_is_found_once(tmp_path: Path) -> None:
    """Afterwards the file says it, whatever it says; one that cannot be read is written anew."""
    found_ms = optimum_ms(SCENARIO, tmp_path)
    (kept,) = (tmp_path / "regret").iterdir()

    kept.write_text(json.dumps({"optimum_ms": 1.5}))
    assert 1.5 == optimum_ms(SCENARIO, tmp_path)
    kept.write_text("{")
    assert found_ms == optimum_ms(SCENARIO, tmp_path)
    assert found_ms == json.loads(kept.read_text())["optimum_ms"]


def test_what_is_kept_is_named_by_what_the_steps_depend_on(tmp_path: Path) -> None:
    """The noise and the name do not matter; the cluster and the baseline do."""
    others = [
        replace(SCENARIO, name="quiet", noise=Noise.none()),
        replace(SCENARIO, cluster=Cluster(1, 3, 4)),
        replace(SCENARIO, baseline=Config({"cycle_ms": 20.0})),
    ]

    for scenario in (SCENARIO, *others):
        optimum_ms(scenario, tmp_path)

    assert 3 == len(list((tmp_path / "regret").iterdir()))
