# SPDX-License-Identifier: Apache-2.0
"""Tests of the scenarios: they begin at the default that ships, and the flat ones have no gain."""

import pytest

from ringtune.tuner import RunSettings, TuningRun, default_config, make_designer
from ringtune.tuner.simulator import SCENARIOS
from ringtune.tuner.testing import coarse_grid
from tests.unit.tuner.recording import RecordingLog, RecordingObserver

FLAT = [name for name, scenario in SCENARIOS.items() if scenario.is_flat]
STEEP = [name for name, scenario in SCENARIOS.items() if not scenario.is_flat]


def grid_gain(name: str) -> float:
    """Return the speed-up of the best config of a coarse grid."""
    target = SCENARIOS[name].target(0)
    points = 4 if len(target.space().free) < 5 else 3
    return target.true_speedup(target.best_of(coarse_grid(target.space(), points))[0])


def test_there_are_enough_of_them() -> None:
    """Twelve or more, three or more of them flat; each is listed under its own name."""
    assert len(STEEP) >= 12
    assert len(FLAT) >= 3
    assert list(SCENARIOS) == [scenario.name for scenario in SCENARIOS.values()]


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_begins_at_the_default_that_ships(name: str) -> None:
    """Its own settings apart; between hosts with several ranks the default is the hierarchical allreduce."""
    scenario, baseline = SCENARIOS[name], SCENARIOS[name].target(0).baseline()
    cluster = scenario.cluster

    assert default_config(cluster.layout).replace(scenario.baseline) == baseline
    assert (cluster.hosts > 1 and cluster.ranks_per_host > 1) == baseline["hierarchical_allreduce"]


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_scenario_has_nothing_to_gain(name: str) -> None:
    """No config of the grid is 2 % faster than the baseline."""
    assert grid_gain(name) < 0.02


@pytest.mark.parametrize("name", FLAT)
def test_a_flat_scenario_adopts_nothing_without_a_gain(name: str) -> None:
    """A whole tuning run, with the scenario's noise, for three seeds; a gain below 2 % may be found."""
    false_adoptions = []
    for seed in range(3):
        target = SCENARIOS[name].target(seed)
        designer, settings = make_designer("random", target.space(), seed), RunSettings(seed=seed, max_samples=6)
        run = TuningRun(target, designer, settings, RecordingLog(), RecordingObserver(), clock=target.clock)
        result = run.run()
        false_adoptions += [result.config] if result.adopted and target.true_speedup(result.config) <= 0.0 else []

    assert [] == false_adoptions
