# SPDX-License-Identifier: Apache-2.0
"""Scenarios of the simulator as problems, and jobs whose knobs have no effect."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from ringtune.tuner import Config, Prior
from ringtune.tuner.priors.cost_model import CostModelPrior, JobShape, fitted_costs
from ringtune.tuner.simulator import Cluster, Noise, Scenario, SimulatedTarget
from ringtune.tuner.simulator.collectives import Task, allreduce_time
from ringtune.tuner.simulator.knobs import Algorithm

from .optima import optimum_ms
from .problem import Problem

CALL_BYTES = tuple(1 << power for power in range(10, 25, 2))
"""Allreduces that a job times at its start."""
CALL_NOISE = 0.15
"""Standard deviation of ln(time) of such a measurement."""
CHUNK_BYTES = 1024 * 1024
MS_TO_S = 1e-3
INERT_PREFIX = "aa_"


@dataclass(frozen=True)
class SimulatedProblem(Problem):
    """A scenario, and its true step times.

    Attributes:
        scenario: The scenario.
        is_inert: Whether every config is as fast as the baseline.
        kind: Its kind among problems.
    """

    scenario: Scenario
    is_inert: bool = False
    kind: str = "simulated"

    @property
    def name(self) -> str:  # type: ignore[override]
        """The scenario's name; a prefix marks knobs without effect."""
        return f"{INERT_PREFIX if self.is_inert else ''}{self.scenario.name}"

    @property
    def ranks_per_host(self) -> tuple[int, ...]:  # type: ignore[override]
        """The scenario's layout."""
        return self.scenario.cluster.layout

    @property
    def step_noise(self) -> float:  # type: ignore[override]
        """Standard deviation of ln(step time) between steps."""
        return self.scenario.noise.step

    @property
    def is_flat(self) -> bool:
        """True where the scenario has no gain by design."""
        return self.is_inert or self.scenario.is_flat

    @cached_property
    def truth(self) -> SimulatedTarget:
        """The job, for questions about its noise-free step times."""
        return self.scenario.target(0)

    @property
    def baseline(self) -> Config:
        """The config without tuning."""
        return self.truth.baseline()

    @cached_property
    def optimum_ms(self) -> float:
        """The shortest noise-free step, milliseconds."""
        return self.truth.step_ms(self.baseline) if self.is_inert else optimum_ms(self.scenario)

    @property
    def without_noise(self) -> "SimulatedProblem":
        """The same, on a machine on which every step of a config takes as long."""
        return replace(self, scenario=replace(self.scenario, noise=Noise.none()))

    def target(self, seed: int) -> SimulatedTarget:
        """Return the job as a new target."""
        return (InertTarget if self.is_inert else KnownTarget)(self.scenario, self.truth, seed)

    def step_ms(self, config: Config) -> float:
        """Return a config's noise-free step time, milliseconds."""
        return self.truth.step_ms(self.baseline if self.is_inert else config)

    def cost_model(self, seed: int) -> Prior:
        """Return the cost model as a job would have it: fitted to noisy allreduces that it timed at its start."""
        job, cluster, machine = self.scenario.job, self.scenario.cluster, self.scenario.machine
        is_hierarchical = bool(self.baseline["hierarchical_allreduce"])
        algorithm = _timed_algorithm(cluster, is_hierarchical=is_hierarchical)
        rng = np.random.default_rng([seed, 1])
        seconds = [
            MS_TO_S
            * allreduce_time(algorithm, Task(machine, cluster, size, CHUNK_BYTES), 1.0).total_ms
            * float(np.exp(rng.normal(0.0, CALL_NOISE)))
            for size in CALL_BYTES
        ]
        sizes = tuple(gradient.bytes for gradient in job.gradients)
        shape = JobShape(sizes, cluster.layout, is_crowded=job.compute_threads > 0)
        costs = fitted_costs(CALL_BYTES, seconds, cluster.layout, is_hierarchical=is_hierarchical)
        return CostModelPrior(shape, costs)


def _timed_algorithm(cluster: Cluster, *, is_hierarchical: bool) -> Algorithm:
    """Return the algorithm of the allreduces that a job times at its start."""
    if is_hierarchical:
        return Algorithm.HIERARCHICAL
    return Algorithm.RING if cluster.hosts > 1 else Algorithm.REDUCE_SCATTER_ALLGATHER


class KnownTarget(SimulatedTarget):
    """A scenario's job whose noise-free step times are asked of another target, which computes each but once."""

    def __init__(self, scenario: Scenario, truth: SimulatedTarget, seed: int) -> None:
        """Start the job; `truth` is the same scenario's."""
        super().__init__(
            scenario.job,
            scenario.cluster,
            machine=scenario.machine,
            noise=scenario.noise,
            baseline=truth.baseline(),
            seed=seed,
        )
        self._truth = truth

    def step_ms(self, config: Config, slowest: float = 1.0) -> float:
        """Return the noise-free step time in milliseconds if the slowest rank computes `slowest` times as long."""
        return self._truth.step_ms(config, slowest)


class InertTarget(KnownTarget):
    """A job that runs its baseline whatever is asked for."""

    def apply(self, config: Config) -> int:
        """Bring the baseline in force again, if the config is legal."""
        self.space().validate(config)
        return super().apply(self.baseline())
