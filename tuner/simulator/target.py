# SPDX-License-Identifier: Apache-2.0
"""Simulated job as a target of the tuner: instant, seeded, on a simulated clock, with a known noise-free truth."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ringtune.errors import ConfigError
from ringtune.tuner.cutting import steps_until_cut
from ringtune.tuner.host_shares import are_uneven
from ringtune.tuner.pauses import longest_step_ms
from ringtune.tuner.sample import VoidReason, Window
from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameters import CONNECTIONS, default_config, pinned_by_layout, search_space, tunable_names
from ringtune.tuner.space.search_space import SearchSpace
from ringtune.tuner.targets import TargetClosed, WindowSpec

from .cluster import Cluster
from .job import SimulatedJob
from .knobs import CONFIGURABLE_ALGORITHMS
from .machine import SimulatedMachine
from .noise import Noise, NoiseStream, StepDraws
from .step import predicted_step_ms

LATE_FACTORS = (1.0, 1.25, 2.0, 4.0)
"""Slowdowns of the slowest rank for which steps are simulated; in between, the step time is interpolated."""


class SimulatedTarget:
    """Job in the simulator behind the target protocol.

    Attributes:
        applied: Every config asked for, in order.
        now_s: Simulated time, seconds.
        paused_s: Part of it spent in pauses, which no config causes, seconds.
    """

    name = "simulated"

    def __init__(
        self,
        job: SimulatedJob,
        cluster: Cluster,
        *,
        machine: SimulatedMachine | None = None,
        noise: Noise | None = None,
        baseline: Config | None = None,
        fixed: Mapping[str, Value] | None = None,
        closes_after_steps: int | None = None,
        seed: int = 0,
    ) -> None:
        """Start a job.

        Args:
            job: Workload of every rank.
            cluster: Cluster of the job.
            machine: Cost constants; None is the documented machine.
            noise: Noise of the steps; None is a quiet machine.
            baseline: Config without tuning; None is the engine's default.
            fixed: Values that the tuner does not change.
            closes_after_steps: Number of steps after which the job is over; None for never.
            seed: Seed of all noise.

        Raises:
            SpaceError: If the baseline is not legal.
        """
        self.job, self.cluster = job, cluster
        self.machine = SimulatedMachine() if machine is None else machine
        self._baseline = default_config(cluster.layout) if baseline is None else baseline
        self._space = simulated_space(cluster, self._baseline, fixed or {})
        self._noise = Noise() if noise is None else noise
        self._stream = NoiseStream(self._noise, cluster.world_size, seed)
        self._steps_left = math.inf if closes_after_steps is None else closes_after_steps
        self._step_ms: dict[tuple[Config, float], float] = {}
        self.applied: list[Config] = []
        self.now_s = 0.0
        self.paused_s = 0.0

    def clock(self) -> float:
        """Return the simulated time in seconds."""
        return self.now_s

    def space(self) -> SearchSpace:
        """Return the legal configs."""
        return self._space

    def baseline(self) -> Config:
        """Return the config the job would run without tuning."""
        return self._baseline

    def apply(self, config: Config) -> int:
        """Switch at once; the epoch is the number of switches so far.

        Raises:
            SpaceError: If the config is not legal.
            TargetClosed: If the job is over.
        """
        self._space.validate(config)
        self._check_open()
        self.applied.append(config)
        return len(self.applied)

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows of noisy step times; raise TargetClosed once the job is over."""
        settle_steps = spec.settle_steps
        while True:
            self._check_open()
            if settle_steps:
                self._pass(self._draw(settle_steps)[0])
                self._check_open()
            settle_steps = 0
            yield self._window(spec)

    def surface(self, config: Config) -> float:
        """Return the noise-free ln(step time in ms)."""
        return math.log(self.step_ms(config))

    def step_ms(self, config: Config, slowest: float = 1.0) -> float:
        """Return the noise-free step time, milliseconds, if the slowest rank computes `slowest` times as long."""
        key = (config, slowest)
        if key not in self._step_ms:
            job = self.job if slowest == 1.0 else _slowed(self.job, slowest)
            self._step_ms[key] = predicted_step_ms(self.machine, self.cluster, job, config)
        return self._step_ms[key]

    def true_speedup(self, config: Config) -> float:
        """Return the noise-free speed-up of `config` over the baseline, as a fraction."""
        return self.step_ms(self._baseline) / self.step_ms(config) - 1.0

    def best_of(self, configs: Iterable[Config]) -> tuple[Config, float]:
        """Return the config with the shortest noise-free step, the first of equals, and its step time, milliseconds."""
        return best_of(configs, self.step_ms)

    def _window(self, spec: WindowSpec) -> Window:
        step_ms, draws = self._draw(spec.steps)
        measured = step_ms[: steps_until_cut(step_ms.tolist(), spec.limit_ms)]
        was_cut = len(measured) < len(step_ms)
        has_pause = bool(np.any(draws.has_pause[: len(measured)])) and (
            1e3 * self._noise.pause_s > longest_step_ms(float(np.median(measured)))
        )
        pauses_s = np.where(draws.has_pause[: len(measured)], self._noise.pause_s, 0.0)
        self._pass(measured + 1e3 * pauses_s)
        self.paused_s += float(pauses_s.sum())
        reason = VoidReason.PAUSE if has_pause else None
        tensor_set = len(self.job.gradients) * 1_000_003 + self.job.bytes
        return Window(spec.epoch, tuple(measured.tolist()), self.job.bytes, tensor_set, reason, was_cut)

    def _draw(self, steps: int) -> tuple[NDArray[np.float64], StepDraws]:
        """Return step times without pauses, shape (steps,), milliseconds, and their random draws."""
        config = self.applied[-1] if self.applied else self._baseline
        draws = self._stream.window(steps, self.now_s)
        return self._base_ms(config, draws.slowest) * draws.factors, draws

    def _base_ms(self, config: Config, slowest: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the step time for each slowdown of the slowest rank, linear beyond the last simulated one."""
        if np.all(slowest == 1.0):
            return np.full(len(slowest), self.step_ms(config))
        anchors_ms = [self.step_ms(config, factor) for factor in LATE_FACTORS]
        beyond_ms = np.maximum(slowest - LATE_FACTORS[-1], 0.0) * self.job.compute_ms
        return np.interp(slowest, LATE_FACTORS, anchors_ms) + beyond_ms

    def _pass(self, step_ms: NDArray[np.float64]) -> None:
        self.now_s += float(step_ms.sum()) * 1e-3
        self._steps_left -= len(step_ms)

    def _check_open(self) -> None:
        if self._steps_left <= 0:
            raise TargetClosed("the simulated job is over")


def simulated_space(cluster: Cluster, baseline: Config, fixed: Mapping[str, Value]) -> SearchSpace:
    """Return the search space of a cluster, as in a job of the engine without allgathers.

    Raises:
        SpaceError: If the baseline is not legal, or sets a parameter that has no effect in the layout.
    """
    names = tunable_names(cluster.layout, has_allgathers=False, has_uneven_links=are_uneven(cluster.link_rates))
    tuned = [name for name in names if name != CONNECTIONS]  # a single connection fills a simulated link
    pinned = {**pinned_by_layout(cluster.layout), **fixed}
    return search_space(pinned, baseline, tuned=tuned, algorithms=CONFIGURABLE_ALGORITHMS)


def best_of(configs: Iterable[Config], step_ms: Callable[[Config], float]) -> tuple[Config, float]:
    """Return the config with the shortest step, the first of equals, and its step time in milliseconds.

    Raises:
        ConfigError: If there is none.
    """
    best = min(((step_ms(config), number, config) for number, config in enumerate(configs)), default=None)
    if best is None:
        raise ConfigError("there is no best of no configs; give at least one")
    return best[2], best[0]


def _slowed(job: SimulatedJob, factor: float) -> SimulatedJob:
    """Return the job of a rank that computes `factor` times as long."""
    return replace(
        job,
        forward_ms=factor * job.forward_ms,
        backward_ms=factor * job.backward_ms,
        optimizer_ms=factor * job.optimizer_ms,
    )
