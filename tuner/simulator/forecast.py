# SPDX-License-Identifier: Apache-2.0
"""Forecast of the possible gain of tuning a job on a cluster, by parameter: the output of `ringtune simulate`."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter
from ringtune.tuner.space.parameters import default_config
from ringtune.tuner.space.search_space import SearchSpace

from .cluster import Cluster
from .job import SimulatedJob
from .machine import SimulatedMachine
from .step import StepTrace, simulate_step
from .target import best_of, simulated_space

SURFACE = ("fusion_bytes", "cycle_ms")
"""Parameters of the drawn surface: rows, columns."""
CURVE_POINTS = 13
GRID_POINTS = 7
"""Grid points per numeric range, in the grid of the surface's parameters and the switches."""
MAX_DESCENTS = 6
"""Maximum number of rounds of the coordinate descent over all parameters."""


@dataclass(frozen=True)
class Curve:
    """Step time along one parameter, with all others as in the best config.

    Attributes:
        name: Name of the parameter.
        values: Values of the parameter.
        step_ms: Step time for each value, milliseconds.
    """

    name: str
    values: tuple[Value, ...]
    step_ms: tuple[float, ...]


@dataclass(frozen=True)
class StepSurface:
    """Step time over two parameters, with all others as in the best config.

    Attributes:
        rows: Values of `fusion_bytes`.
        columns: Values of `cycle_ms`.
        step_ms: Step times, milliseconds, one tuple per row.
    """

    rows: tuple[Value, ...]
    columns: tuple[Value, ...]
    step_ms: tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Expected:
    """Noise-free performance of a config.

    Attributes:
        config: The config.
        step_ms: Step time, milliseconds.
        communication_ms: Time in which allreduces run, overlapped with computing or not, milliseconds.
        exposed_share: Share of the step that communication adds to computing.
        responses: Number of fused messages in a step.
    """

    config: Config
    step_ms: float
    communication_ms: float
    exposed_share: float
    responses: int


@dataclass(frozen=True)
class Forecast:
    """Forecast for a job on a cluster, with and without tuning.

    Attributes:
        model: Name of the job.
        tensors: Number of gradients in a step.
        bytes: Total size of the gradients.
        compute_ms: Duration of a step without communication, milliseconds.
        cluster: Cluster of the job.
        baseline: Performance without tuning.
        best: Performance of the best config found by a coarse grid and then a coordinate descent.
        speedup: Speed-up of the best config over the baseline, a fraction.
        curves: Curve of each free parameter.
        surface: Surface over `fusion_bytes` and `cycle_ms`; None if one of them is fixed.
    """

    model: str
    tensors: int
    bytes: int
    compute_ms: float
    cluster: Cluster
    baseline: Expected
    best: Expected
    speedup: float
    curves: tuple[Curve, ...]
    surface: StepSurface | None


def forecast(
    job: SimulatedJob,
    cluster: Cluster,
    *,
    machine: SimulatedMachine | None = None,
    baseline: Config | None = None,
    fixed: Mapping[str, Value] | None = None,
) -> Forecast:
    """Simulate a job under its baseline and search for the best config.

    Args:
        job: Workload of every rank.
        cluster: Cluster of the job.
        machine: Cost constants; None is the documented machine.
        baseline: Config without tuning; None is the engine's default.
        fixed: Values that are not searched, and that replace the baseline's.

    Raises:
        SpaceError: If the baseline or a fixed value is not legal.
    """
    start = (default_config(cluster.layout) if baseline is None else baseline).replace(fixed or {})
    space = simulated_space(cluster, start, fixed or {})

    @cache
    def trace(config: Config) -> StepTrace:
        return simulate_step(SimulatedMachine() if machine is None else machine, cluster, job, config)

    def step_ms(config: Config) -> float:
        return trace(config).step_ms

    best = _descend(space, best_of([start, *_grid(space, start)], step_ms)[0], step_ms)
    return Forecast(
        model=job.name,
        tensors=len(job.gradients),
        bytes=job.bytes,
        compute_ms=job.compute_ms,
        cluster=cluster,
        baseline=_expected(start, trace(start)),
        best=_expected(best, trace(best)),
        speedup=step_ms(start) / step_ms(best) - 1.0,
        curves=tuple(_curve(parameter, best, step_ms) for parameter in space.free),
        surface=_surface(space, best, step_ms),
    )


def to_json(answer: Forecast) -> dict[str, Any]:
    """Return a forecast as plain data for `json.dumps`."""
    data = asdict(answer)
    for name, expected in (("baseline", answer.baseline), ("best", answer.best)):
        data[name]["config"] = expected.config.to_json()
    return data


def _expected(config: Config, trace: StepTrace) -> Expected:
    share = trace.exposed_ms / trace.step_ms
    return Expected(config, trace.step_ms, trace.communication_ms, share, len(trace.responses))


def _grid(space: SearchSpace, start: Config) -> Iterator[Config]:
    """Return all combinations of the surface's parameters and the switches, with the others as in `start`."""
    axes = [
        [(parameter.name, value) for value in parameter_values(parameter, GRID_POINTS)]
        for parameter in space.free
        if parameter.name in SURFACE or not isinstance(parameter, NumberParameter)
    ]
    return (start.replace(dict(pairs)) for pairs in product(*axes))


def _descend(space: SearchSpace, start: Config, step_ms: Callable[[Config], float]) -> Config:
    """Return the result of a coordinate descent: the best value along one parameter after the other."""
    best = start
    for _ in range(MAX_DESCENTS):
        before = best
        for parameter in space.free:
            values = parameter_values(parameter, CURVE_POINTS)
            best = best_of([best, *(best.replace({parameter.name: value}) for value in values)], step_ms)[0]
        if best == before:
            break
    return best


def _curve(parameter: Parameter, best: Config, step_ms: Callable[[Config], float]) -> Curve:
    values = parameter_values(parameter, CURVE_POINTS)
    return Curve(parameter.name, values, tuple(step_ms(best.replace({parameter.name: value})) for value in values))


def _surface(space: SearchSpace, best: Config, step_ms: Callable[[Config], float]) -> StepSurface | None:
    by_name = {parameter.name: parameter for parameter in space.free}
    if not set(SURFACE) <= set(by_name):
        return None
    rows, columns = (parameter_values(by_name[name], CURVE_POINTS) for name in SURFACE)
    times = (tuple(step_ms(best.replace(dict(zip(SURFACE, (r, c), strict=True)))) for c in columns) for r in rows)
    return StepSurface(rows, columns, tuple(times))


def parameter_values(parameter: Parameter, points: int) -> tuple[Value, ...]:
    """Return all values of a switch or a category, or a number's special values and `points` values of its range."""
    if isinstance(parameter, BooleanParameter):
        return (False, True)
    if isinstance(parameter, CategoryParameter):
        return parameter.choices
    zeros = [0.0] * len(parameter.special)
    numbers = (parameter.decode([*zeros, float(share)]) for share in np.linspace(0.0, 1.0, points))
    return tuple(dict.fromkeys([*parameter.special, *numbers]))
