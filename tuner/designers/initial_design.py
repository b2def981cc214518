# SPDX-License-Identifier: Apache-2.0
"""What is tried before a model can choose: one change at a time to the best config so far, the safest first.

A switch that is off may be worth more than all numbers together, and a model of numbers would never turn it on. It also
tells a true prior from a false one before the false one is followed. Numbers are increased: larger messages and longer
waits cost a little where they are wrong, many small messages cost a multiple.
"""

from collections.abc import Collection, Iterator

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter
from ringtune.tuner.space.search_space import SearchSpace

INCREASE = 0.7
"""Of the way from a number's default to the end of its range."""
LEAST_INCREASE = 0.2
"""Of the range; a number with less room above its default is left to the model."""


def opening_move(space: SearchSpace, best: Config, tried: Collection[Config], *, is_informed: bool) -> Config | None:
    """Return what to try next; None where the opening is over.

    Args:
        space: The legal configs.
        best: The best of those tried.
        tried: All that were tried.
        is_informed: Whether a prior is in use, which knows more than the later moves would tell.
    """
    if space.default() not in tried:
        return space.default()
    for parameter, value in _moves(space, is_informed=is_informed):
        if not any(_has(parameter, config[parameter.name], value) for config in tried):
            return best.replace({**space.fixed, parameter.name: value})
    return None


def _moves(space: SearchSpace, *, is_informed: bool) -> Iterator[tuple[Parameter, Value]]:
    """Yield what may be changed to what, in the order of the opening."""
    kinds = (_switches,) if is_informed else (_switches, _choices, _increases)
    yield from (move for moves_of in kinds for parameter in space.free for move in moves_of(parameter))


def _switches(parameter: Parameter) -> Iterator[tuple[Parameter, Value]]:
    """Yield on, of a switch that is off by default."""
    if isinstance(parameter, BooleanParameter) and not parameter.default:
        yield parameter, True


def _choices(parameter: Parameter) -> Iterator[tuple[Parameter, Value]]:
    """Yield every choice of a category but the default."""
    if isinstance(parameter, CategoryParameter):
        yield from ((parameter, choice) for choice in parameter.choices if choice != parameter.default)


def _increases(parameter: Parameter) -> Iterator[tuple[Parameter, Value]]:
    """Yield a number far above its default, where there is room."""
    if isinstance(parameter, NumberParameter):
        default = parameter.encode(parameter.default)[-1]
        if INCREASE * (1.0 - default) >= LEAST_INCREASE:
            increased = default + INCREASE * (1.0 - default)
            yield parameter, parameter.decode([*(0.0 for _ in parameter.special), increased])


def _has(parameter: Parameter, tried: Value, wanted: Value) -> bool:
    """Tell whether what was tried says what `wanted` would: for numbers, nearer to it than the default is."""
    if not isinstance(parameter, NumberParameter):
        return tried == wanted
    default, increased, place = (parameter.encode(value)[-1] for value in (parameter.default, wanted, tried))
    return place >= 0.5 * (default + increased)
