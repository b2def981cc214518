# SPDX-License-Identifier: Apache-2.0
"""Scenarios as problems: without noise, and with knobs that have no effect."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.tuner.regret import simulated
from benchmarks.tuner.regret.simulated import SimulatedProblem
from ringtune.tuner import Config, WindowSpec
from ringtune.tuner.priors.cost_model import EngineCosts, fitted_costs
from ringtune.tuner.simulator import Cluster, Noise, Scenario, parse_link
from tests.unit.tuner.simulator.jobs import job_of

SCENARIO = Scenario("small", job_of(4096, 1 << 20, 4096), Cluster(1, 2, 2), noise=Noise.none())


def test_a_job_times_the_allreduce_that_it_begins_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between hosts the cost model is fitted to hierarchical calls, or to those of a ring if the job set that."""
    longest = []
    between_hosts = replace(SCENARIO, cluster=Cluster(2, 2, 2, parse_link("1gbit")))
    ring = replace(between_hosts, baseline=Config({"hierarchical_allreduce": False}))

    def noted(sizes: Sequence[int], seconds: Sequence[float], layout: Sequence[int], **how: bool) -> EngineCosts:
        longest.append((how, max(seconds)))
        return fitted_costs(sizes, seconds, layout, **how)

    monkeypatch.setattr(simulated, "fitted_costs", noted)
    for scenario in (between_hosts, ring):
        SimulatedProblem(scenario).cost_model(0)

    (hierarchical, its_longest_s), (flat, longest_s) = longest
    assert ({"is_hierarchical": True}, {"is_hierarchical": False}) == (hierarchical, flat)
    assert longest_s > 1.2 * its_longest_s


def test_without_noise_every_step_takes_as_long() -> None:
    """A regret without noise is the search's alone, since every step takes as long."""
    problem = SimulatedProblem(replace(SCENARIO, noise=Noise(step=0.1, late_chance=0.1, drift=0.1)))

    target = problem.without_noise.target(0)

    assert Noise.none() == problem.without_noise.scenario.noise
    assert problem.step_ms(target.baseline()) == target.step_ms(target.baseline())


def test_knobs_that_do_nothing_change_nothing() -> None:
    """Knobs without effect leave steps at the baseline's time, so that no pick is better or worse than another."""
    problem = SimulatedProblem(SCENARIO, is_inert=True)
    target = problem.target(0)
    rng = np.random.default_rng(0)

    epoch = target.apply(target.space().random(rng))
    window = next(iter(target.windows(WindowSpec(epoch, 0, 3, 0.0))))

    assert "aa_small" == problem.name
    assert problem.is_flat
    np.testing.assert_allclose(window.step_ms, 3 * [problem.baseline_ms])
    assert 0.0 == problem.regret(target.space().random(rng)) == problem.loss(target.space().random(rng))
