# SPDX-License-Identifier: Apache-2.0
"""Scenarios as problems: without noise, and with knobs that do nothing."""

from dataclasses import replace

import numpy as np

from benchmarks.tuner.regret.simulated import SimulatedProblem
from ringtune.tuner import WindowSpec
from ringtune.tuner.simulator import Cluster, Noise, Scenario
from tests.unit.tuner.simulator.jobs import job_of

SCENARIO = Scenario("small", job_of(4096, 1 << 20, 4096), Cluster(1, 2, 2), noise=Noise.none())


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
