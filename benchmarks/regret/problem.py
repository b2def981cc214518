# SPDX-License-Identifier: Apache-2.0
"""A scenario as a problem: its true optimum, and what a job's start would tell the cost model about it."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ringtune.tuner import Config, Prior
from ringtune.tuner.cost_model import CostModelPrior, JobShape, fitted_costs
from ringtune.tuner.designers.spread import neighbour
from ringtune.tuner.simulator import Scenario, SimulatedTarget
from ringtune.tuner.simulator.collectives import Task, allreduce_time
from ringtune.tuner.simulator.knobs import Algorithm
from ringtune.tuner.testing import coarse_grid

GRID_POINTS = 6
CLIMBS = 5
"""The best of the grid from which the optimum is climbed to."""
CLIMB_STEPS = (0.1, 0.05, 0.025, 0.0125)
TRIES = 60
CALL_BYTES = tuple(1 << power for power in range(10, 25, 2))
"""Allreduces that a job times at its start."""
CALL_NOISE = 0.15
"""Standard deviation of ln(time) of such a measurement."""
CHUNK_BYTES = 1024 * 1024
MS_TO_S = 1e-3


@dataclass(frozen=True)
class Problem:
    """A scenario, and what is true of it."""

    scenario: Scenario

    @cached_property
    def truth(self) -> SimulatedTarget:
        """The job, for questions about its noise-free step times."""
        return self.scenario.target(0)

    @cached_property
    def optimum_ms(self) -> float:
        """The shortest noise-free step: of a grid, and of climbs from its best."""
        space, step_ms = self.truth.space(), self.truth.step_ms
        best = sorted(coarse_grid(space, GRID_POINTS), key=step_ms)[:CLIMBS]
        rng = np.random.default_rng(0)
        for step in CLIMB_STEPS:
            for index, config in enumerate(best):
                near = [neighbour(space, config, rng, step) for _ in range(TRIES)]
                best[index] = min([config, *near], key=step_ms)
        return min(map(step_ms, [*best, self.truth.baseline()]))

    def regret(self, config: Config) -> float:
        """Return by which fraction a config's steps are longer than the shortest."""
        return self.truth.step_ms(config) / self.optimum_ms - 1.0

    def loss(self, config: Config) -> float:
        """Return by which fraction a config's steps are longer than the baseline's."""
        return self.truth.step_ms(config) / self.truth.step_ms(self.truth.baseline()) - 1.0

    def cost_model(self, seed: int) -> Prior:
        """Return the cost model as a job would have it: fitted to noisy allreduces that it timed at its start."""
        job, cluster, machine = self.scenario.job, self.scenario.cluster, self.scenario.machine
        algorithm = Algorithm.RING if cluster.hosts > 1 else Algorithm.REDUCE_SCATTER_ALLGATHER
        rng = np.random.default_rng([seed, 1])
        seconds = [
            MS_TO_S
            * allreduce_time(algorithm, Task(machine, cluster, size, CHUNK_BYTES), 1.0).total_ms
            * float(np.exp(rng.normal(0.0, CALL_NOISE)))
            for size in CALL_BYTES
        ]
        ring_size = cluster.world_size if cluster.hosts > 1 else 1
        sizes = tuple(gradient.bytes for gradient in job.gradients)
        shape = JobShape(sizes, cluster.layout, is_crowded=job.compute_threads > 0)
        return CostModelPrior(shape, fitted_costs(CALL_BYTES, seconds, ring_size))
