# SPDX-License-Identifier: Apache-2.0
"""Fit of the simulator's constants to some of a surface's configs, with its error at the others.

A few groups of constants are scaled to the most probable values, each with a log-normal prior around the documented
one. The computing time of a step is a group of its own: a shared processor has another speed than an idle one.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from ringtune.measuring.bench.surface_file import Header
from ringtune.tuner import Config
from ringtune.tuner.engine_facts import ENGINE_FACTS
from ringtune.tuner.simulator import Cluster, Gradient, Link, SimulatedJob, SimulatedMachine
from ringtune.tuner.simulator.step import predicted_step_ms

Array = NDArray[np.float64]

GROUPS: Mapping[str, tuple[str, ...]] = {
    "speed of memory": ("copy_bytes_per_s", "reduce_bytes_per_s", "memory_bytes_per_s"),
    "waiting for others": ("sync_us", "crowded_sync_us", "wake_us", "switch_us", "hand_over_us"),
    "work per tensor": ("submit_us", "request_tensor_us", "ready_tensor_us", "response_tensor_us"),
    "sockets": ("socket_message_us", "exchange_us"),
}
SCALE_STD = 0.7
"""Prior standard deviation of ln(scale) of a group: the documented constants come from one machine."""
COMPUTE_STD = 0.3
MODEL_STD = 0.08
"""Error that remains at a config with the best constants, as ln(step time)."""
REACH_STDS = 3.0
FORWARD_SHARE, BACKWARD_SHARE = 1 / 3, 2 / 3
"""Shares of a recorded step's computation; it has no optimizer."""
DEFAULT_LINK = Link(1.25e8)


@dataclass(frozen=True)
class MeasuredSurface:
    """A surface as the simulator is asked about it.

    Attributes:
        job: Job of every rank.
        cluster: Machines that it runs on.
        step_ms: Measured step time by config, milliseconds.
    """

    job: SimulatedJob
    cluster: Cluster
    step_ms: Mapping[Config, float]

    @classmethod
    def of(cls, header: Header, step_ms: Mapping[Config, float]) -> "MeasuredSurface":
        """Return a surface's job and cluster from its header, with its cells."""
        gradients = tuple(
            Gradient(f"tensor{number}", (size // 4,)) for number, size in enumerate(header["gradient_bytes"])
        )
        layout, rate = header["ranks_per_host"], header["link_bits_per_s"]
        compute_ms = float(header["compute_ms"])
        # Between hosts a front end's gradients live in ordinary memory.
        home_bytes = ENGINE_FACTS.registered_min_bytes if len(layout) == 1 else None
        forward_ms, backward_ms = FORWARD_SHARE * compute_ms, BACKWARD_SHARE * compute_ms
        job = SimulatedJob(header["workload"], gradients, forward_ms, backward_ms, home_bytes=home_bytes)
        link = DEFAULT_LINK if rate is None else Link(rate / 8.0)
        # All hosts are namespaces of one machine and share its cores; each has its part of them.
        cores = max(int(header["machine"]["cores"]) // len(layout), 1)
        return cls(job, Cluster(len(layout), layout[0], cores, link), step_ms)


@dataclass(frozen=True)
class Calibration:
    """Error of the simulator.

    Attributes:
        fitted: Number of configs that the constants were fitted to.
        errors_before: Relative errors at the other configs with the documented constants, shape (m,).
        errors: The same with the fitted ones.
        scales: Factor of each group, and the computing time of a step.
    """

    fitted: int
    errors_before: Array
    errors: Array
    scales: Mapping[str, float]


def calibrate(measured: MeasuredSurface, configs: Sequence[Config]) -> Calibration:
    """Fit to some configs, and compare at all others.

    Args:
        measured: The surface.
        configs: Those to fit to, of the surface's; at least one is left.
    """
    names = [name for name in GROUPS if measured.cluster.hosts > 1 or name != "sockets"]
    stds = np.array([SCALE_STD] * len(names) + [COMPUTE_STD])

    def residuals(theta: Array) -> Array:
        off = [math.log(_predicted(measured, names, theta, c) / measured.step_ms[c]) / MODEL_STD for c in configs]
        return np.array([*off, *(theta / stds)])

    bounds = (-REACH_STDS * stds, REACH_STDS * stds)
    # Predictions have steps where a batch more or less fits: differences must be taken over more than rounding.
    fit = least_squares(residuals, np.zeros(len(stds)), bounds=bounds, loss="soft_l1", diff_step=0.05)
    others = [config for config in measured.step_ms if config not in set(configs)]
    before, after = (_errors(measured, names, theta, others) for theta in (np.zeros(len(stds)), fit.x))
    scales = dict(zip([*names, "computing"], (float(s) for s in np.exp(fit.x)), strict=True))
    return Calibration(len(configs), before, after, scales)


def scaled(machine: SimulatedMachine, scales: Mapping[str, float]) -> SimulatedMachine:
    """Return a machine whose groups of constants are scaled."""
    values: dict[str, float] = {}
    for name, scale in scales.items():
        for field in GROUPS[name]:
            value = getattr(machine, field)
            values[field] = value / scale if field.endswith("_per_s") else value * scale
    return replace(machine, **values)


def _predicted(measured: MeasuredSurface, names: Sequence[str], theta: Array, config: Config) -> float:
    scales = np.exp(theta)
    machine = scaled(SimulatedMachine(), dict(zip(names, (float(s) for s in scales[:-1]), strict=True)))
    job, factor = measured.job, float(scales[-1])
    slower = replace(job, forward_ms=factor * job.forward_ms, backward_ms=factor * job.backward_ms)
    return predicted_step_ms(machine, measured.cluster, slower, config)


def _errors(measured: MeasuredSurface, names: Sequence[str], theta: Array, configs: Sequence[Config]) -> Array:
    return np.array([_predicted(measured, names, theta, c) / measured.step_ms[c] - 1.0 for c in configs])
