# SPDX-License-Identifier: Apache-2.0
"""The configs of a recorded surface: a full grid over the parameters that can act in a layout."""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.errors import ConfigError
from ringtune.tuner import Config, SearchSpace, SpaceError, search_space, tunable_names
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameters import ALGORITHMS_OF_ONE_HOST, AUTO, KIB, MIB, default_config, pinned_by_layout

FUSION_BYTES = (0, 256 * KIB, 1 * MIB, 4 * MIB, 16 * MIB, 64 * MIB, 256 * MIB)
CYCLE_MS = (0.05, 0.3, 1.0, 3.0, 10.0, 30.0)
ALGORITHM = "allreduce_algorithm"
HIERARCHICAL = "hierarchical_allreduce"
LEFT_OUT = "direct"
"""Algorithm left out of whole steps: it posts messages whole, which is for small ones, and would take minutes."""


@dataclass(frozen=True)
class Grid:
    """The values of the two numbers; switches and categories have all values that can act.

    Attributes:
        fusion_bytes: Ascending.
        cycle_ms: Ascending.
    """

    fusion_bytes: tuple[int, ...] = FUSION_BYTES
    cycle_ms: tuple[float, ...] = CYCLE_MS


def grid_configs(grid: Grid, ranks_per_host: Sequence[int], algorithms: Sequence[str]) -> tuple[Config, ...]:
    """Return every combination that is legal, the engine's default first.

    Args:
        grid: The numbers' values; those of the default are added where they lack.
        ranks_per_host: Number of ranks on each host.
        algorithms: Names in the engine's allreduce registry.

    Raises:
        ConfigError: If a value lies outside of the engine's range.
    """
    default = default_config(ranks_per_host)
    tuned = (*tunable_names(ranks_per_host, has_allgathers=False), ALGORITHM)
    # Between hosts a table chooses by size; a grid of all algorithms there would take a day.
    varied = (
        [a for a in algorithms if a in ALGORITHMS_OF_ONE_HOST and a != LEFT_OUT] if len(ranks_per_host) == 1 else []
    )
    space = search_space(pinned_by_layout(ranks_per_host), default, tuned=tuned, algorithms=varied)
    axes: dict[str, Sequence[Value]] = {
        "fusion_bytes": _with(grid.fusion_bytes, default["fusion_bytes"]),
        "cycle_ms": _with(grid.cycle_ms, default["cycle_ms"]),
        **_switches(space, varied),
    }
    combinations = (dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values()))
    try:
        configs = [space.validate(default.replace(values)) for values in combinations]
    except SpaceError as error:
        raise ConfigError(f"the grid of the surface cannot be measured: {error}") from error
    return (default, *(config for config in configs if config != default))


def turns(configs: Sequence[Config], repeat: int) -> list[int]:
    """Return the numbers of all configs in the order of a repeat, drawn anew for each but always the same."""
    order = list(range(len(configs)))
    random.Random(repeat).shuffle(order)  # noqa: S311  (an order of turns, no secret)
    return order


def _switches(space: SearchSpace, algorithms: Sequence[str]) -> dict[str, Sequence[Value]]:
    free = {parameter.name for parameter in space.free}
    choices: dict[str, Sequence[Value]] = {}
    if ALGORITHM in free:
        choices[ALGORITHM] = [AUTO, *algorithms]
    if HIERARCHICAL in free:
        choices[HIERARCHICAL] = [False, True]
    return choices


def _with(values: Sequence[Value], default: Value) -> list[Value]:
    return sorted({*values, default}, key=float)
