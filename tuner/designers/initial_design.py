# SPDX-License-Identifier: Apache-2.0
"""Initial design: the configs that are tried before a model can choose.

In a live job, which pays for every bad config, single changes to the best config so far, the safest first. A switch
that is off may be worth more than all numbers together, and a model of numbers would never turn it on. A measured
switch also separates a true prior from a false one before the search follows the false one. Numbers are increased:
wrongly large messages or long waits cost little, many small messages cost a multiple.

Where a bad trial is cheap and no prior holds, configs that fill the space: every knob varies from the start, all at
once, because a model believes of a knob that never varied that it does nothing.
"""

from collections.abc import Collection, Iterator

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter
from ringtune.tuner.space.search_space import SearchSpace

from .candidates import latin_hypercube

INCREASE = 0.7
"""Size of an increase, as a fraction of the way from a number's default to the end of its range."""
LEAST_INCREASE = 0.2
"""Smallest increase, as a fraction of the range; a number with less room above its default is left to the model."""
MOST_FILLING = 12
"""Most configs that fill a space: the model does better with the rest of a small budget."""


def filling_config(space: SearchSpace, tried: Collection[Config], seed: int) -> Config | None:
    """Return the next config of a Latin hypercube with a config more than free parameters; None after its end.

    Args:
        space: The legal configs.
        tried: All configs tried so far.
        seed: Seed of every random choice.
    """
    count = min(len(space.free) + 1, MOST_FILLING)
    if len(tried) > count:
        return None
    points = latin_hypercube(count, len(space.free), seed)
    return next((config for config in map(space.at_quantiles, points) if config not in tried), None)


def next_initial_config(
    space: SearchSpace, best: Config, tried: Collection[Config], *, is_informed: bool
) -> Config | None:
    """Return the next config of the initial design; None after its end.

    Args:
        space: The legal configs.
        best: Best config tried so far.
        tried: All configs tried so far.
        is_informed: Whether a prior is in use; then only the switches are tried, because the prior covers the rest.
    """
    if space.default() not in tried:
        return space.default()
    kinds = (_switches,) if is_informed else (_switches, _choices, _increases)
    for parameter, value in (move for moves_of in kinds for free in space.free for move in moves_of(free)):
        if not any(_has(parameter, config[parameter.name], value) for config in tried):
            return best.replace({**space.fixed, parameter.name: value})
    return None


def _switches(parameter: Parameter) -> Iterator[tuple[Parameter, Value]]:
    """Yield the value on for a switch that is off by default."""
    if isinstance(parameter, BooleanParameter) and not parameter.default:
        yield parameter, True


def _choices(parameter: Parameter) -> Iterator[tuple[Parameter, Value]]:
    """Yield every choice of a category except the default."""
    if isinstance(parameter, CategoryParameter):
        yield from ((parameter, choice) for choice in parameter.choices if choice != parameter.default)


def _increases(parameter: Parameter) -> Iterator[tuple[Parameter, Value]]:
    """Yield a number far above its default, if the range has room."""
    if isinstance(parameter, NumberParameter):
        default = parameter.encode(parameter.default)[-1]
        if INCREASE * (1.0 - default) >= LEAST_INCREASE:
            increased = default + INCREASE * (1.0 - default)
            yield parameter, parameter.decode([*(0.0 for _ in parameter.special), increased])


def _has(parameter: Parameter, tried: Value, wanted: Value) -> bool:
    """Return whether a tried value covers the wanted one; a number must be nearer to it than to the default."""
    if not isinstance(parameter, NumberParameter):
        return tried == wanted
    default, increased, place = (parameter.encode(value)[-1] for value in (parameter.default, wanted, tried))
    return place >= 0.5 * (default + increased)
