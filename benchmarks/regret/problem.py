# SPDX-License-Identifier: Apache-2.0
"""A scenario as a problem: its true optimum, and what a job's start would tell the cost model about it."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ringtune.tuner import Config, Prior
from ringtune.tuner.cost_model import CostModelPrior, JobShape, fitted_costs
from ringtune.tuner.simulator import Noise, Scenario, SimulatedTarget
from ringtune.tuner.simulator.collectives import Task, allreduce_time
from ringtune.tuner.simulator.knobs import Algorithm

from .optima import optimum_ms

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
        """The shortest noise-free step, milliseconds."""
        return optimum_ms(self.scenario)

    @property
    def without_noise(self) -> "Problem":
        """The same, on a machine on which every step of a config takes as long."""
        return Problem(replace(self.scenario, noise=Noise.none()))

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
