# SPDX-License-Identifier: Apache-2.0
"""Recorded surfaces of this engine (`ringtune bench --record-surface`) as problems, replayed with their real noise.

A replayed job begins at the default that ships, whatever the default was when the surface was recorded.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ringtune.errors import ConfigError
from ringtune.measuring.bench.surface_file import Header, read_surface
from ringtune.tuner import (
    BooleanParameter,
    CategoryParameter,
    Config,
    NumberParameter,
    Prior,
    SearchSpace,
    default_config,
)
from ringtune.tuner.priors.cost_model import CostModelPrior, EngineCosts, JobShape, fitted_costs
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameter_types import Parameter
from ringtune.tuner.space.parameters import engine_parameters

from .table import Table, TableProblem

SUFFIX = ".jsonl.gz"
PREFIX = "recorded_"
"""Prefix of names: a surface's file may have the name of a scenario."""


def recorded_problems(folder: Path) -> list[TableProblem]:
    """Return the surfaces of a folder, in the order of their names; none where there is no folder.

    Raises:
        ConfigError: If a file is no surface.
    """
    return [recorded_problem(path) for path in sorted(folder.glob(f"*{SUFFIX}"))]


def recorded_problem(path: Path) -> TableProblem:
    """Return a surface as a problem.

    Raises:
        ConfigError: If the file is none, or the default was not measured.
    """
    header, rows = read_surface(path)
    recorded, layout = Config(header["baseline"]), tuple(header["ranks_per_host"])
    cells = {
        recorded.replace(row["config"]): tuple(tuple(window["step_ms"]) for window in row["windows"]) for row in rows
    }
    baseline = Config({name: value for name, value in default_config(layout).items() if name in recorded})
    if baseline not in cells:
        raise ConfigError(f"{path} has no measurement of today's default, {dict(baseline)}; record the surface again")
    algorithms = sorted({str(config["allreduce_algorithm"]) for config in cells} - {"auto"})
    parameters = [parameter for parameter in engine_parameters(algorithms) if parameter.name in baseline]
    table = Table(
        name=PREFIX + path.name.removesuffix(SUFFIX),
        kind="recorded",
        space=measured_space(parameters, list(cells), baseline),
        baseline=baseline,
        cells=cells,
        bytes_per_step=sum(header["gradient_bytes"]),
        cost_model=lambda: _cost_model(header),
        ranks_per_host=layout,
    )
    return TableProblem(table)


def measured_space(parameters: Sequence[Parameter], configs: Sequence[Config], baseline: Config) -> SearchSpace:
    """Return the space between the measured configs: a parameter that was not varied is fixed.

    Args:
        parameters: Names, scales and steps.
        configs: Those measured.
        baseline: One of them.
    """
    values = {p.name: list(dict.fromkeys(config[p.name] for config in configs)) for p in parameters}
    fixed = {name: found[0] for name, found in values.items() if len(found) == 1}
    return SearchSpace([p if p.name in fixed else _narrowed(p, values[p.name], baseline) for p in parameters], fixed)


def _narrowed(parameter: Parameter, values: Sequence[Value], baseline: Mapping[str, Value]) -> Parameter:
    """Return the parameter with no other values than from the least to the most that was measured."""
    default: Any = baseline[parameter.name]
    if isinstance(parameter, BooleanParameter):
        return BooleanParameter(parameter.name, default)
    if isinstance(parameter, CategoryParameter):
        return CategoryParameter(parameter.name, tuple(str(v) for v in values), default)
    special = tuple(value for value in parameter.special if value in values)
    numbers = [float(value) for value in values if value not in special]
    return NumberParameter(
        parameter.name, min(numbers), max(numbers), default, parameter.scale, parameter.step, special
    )


def _cost_model(header: Header) -> Prior:
    """Return the cost model as that job had it, from the allreduces that it timed at its start."""
    layout = tuple(header["ranks_per_host"])
    shape = JobShape(tuple(header["gradient_bytes"]), layout)
    calls = header["calls"]
    if len({size for size, _ in calls}) < 2:
        return CostModelPrior(shape, EngineCosts())
    call_bytes, call_s = [int(size) for size, _ in calls], [seconds for _, seconds in calls]
    is_hierarchical = bool(header["baseline"]["hierarchical_allreduce"])
    return CostModelPrior(shape, fitted_costs(call_bytes, call_s, layout, is_hierarchical=is_hierarchical))
