# SPDX-License-Identifier: Apache-2.0
"""Search space for libraries that know numbers and categories, but no special values of a number.

A parameter with special values becomes two dimensions: the number, and a category that names a special value or none.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter
from ringtune.tuner.space.search_space import SearchSpace

NUMBER = "a number"
"""The choice beside a number's special values."""


@dataclass(frozen=True)
class Range:
    """A number between `low` and `high`, in its parameter's unit; `is_log` says if equal steps are equal ratios."""

    low: float
    high: float
    is_log: bool


Dimension = Range | tuple[Value, ...]
"""A range, or the choices of a category."""
Point = Mapping[str, Value]
"""A value for each dimension."""


def dimensions_of(space: SearchSpace) -> dict[str, Dimension]:
    """Return a space's dimensions by name, those of fixed parameters left out."""
    return {name: dimension for parameter in space.free for name, dimension in _dimensions(parameter).items()}


def point_of(space: SearchSpace, config: Config) -> dict[str, Value]:
    """Return a config as a point; a special value has no number, and stands at the low end."""
    point: dict[str, Value] = {}
    for parameter in space.free:
        value = config[parameter.name]
        point[parameter.name] = value
        if isinstance(parameter, NumberParameter):
            is_special = value in parameter.special
            point[parameter.name] = float(parameter.low if is_special else value)
            if parameter.special:
                point[_choice_name(parameter)] = str(value) if is_special else NUMBER
    return point


def config_at(space: SearchSpace, point: Point) -> Config:
    """Return the legal config at a point of the space's dimensions."""
    return space.default().replace({parameter.name: _value(parameter, point) for parameter in space.free})


def _dimensions(parameter: Parameter) -> dict[str, Dimension]:
    if isinstance(parameter, BooleanParameter):
        return {parameter.name: (False, True)}
    if isinstance(parameter, CategoryParameter):
        return {parameter.name: parameter.choices}
    number = Range(parameter.low, parameter.high, parameter.scale != "linear")
    if not parameter.special:
        return {parameter.name: number}
    choices = (NUMBER, *(str(special) for special in parameter.special))
    return {_choice_name(parameter): choices, parameter.name: number}


def _choice_name(parameter: NumberParameter) -> str:
    return f"{parameter.name} is"


def _value(parameter: Parameter, point: Point) -> Value:
    value = point[parameter.name]
    if not isinstance(parameter, NumberParameter):
        return value
    special = {str(special): special for special in parameter.special}
    which = point.get(_choice_name(parameter), NUMBER)
    return special[str(which)] if which in special else parameter.nearest(float(value))
