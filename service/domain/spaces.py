# SPDX-License-Identifier: Apache-2.0
"""Legal search spaces and configs: those inside the box that is compiled in.

The box is the engine's parameters. Its registry of algorithms is not known here, so that any identifier is taken as
one: the job checks the configs that it applies. Other targets have spaces of their own, and are bounded in size alone.

Jobs of several versions report to one study. A knob that a job's version does not know counts as its default: the job
ran as that default runs. So a config has a value for every knob here, whoever reported it.
"""

import math
import re
from collections.abc import Mapping
from typing import Any, get_args

from ringtune.service.errors import OutsideSearchSpace
from ringtune.tuner import (
    CategoryParameter,
    Config,
    NumberParameter,
    Parameter,
    SearchSpace,
    SpaceError,
    Value,
    engine_parameters,
)
from ringtune.tuner.space.parameter_types import Scale
from ringtune.tuner.space.parameters import FIRST_KNOBS, with_later_knobs

ENGINE_TARGET = "ringtune"
MAX_PARAMETERS = 64
MAX_TEXT = 64
MAX_SPECIAL = 16
MAX_CHOICES = 64
MAX_STEP = 2**40
LARGEST = 2**53
"""Below it every reader of JSON holds whole numbers exactly."""
NAME = re.compile(r"[a-z][a-z0-9_]{0,63}")
IDENTIFIER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.+-]{0,63}")


def study_space(target: str, description: Mapping[str, Any], box: SearchSpace) -> SearchSpace:
    """Return the search space of a study.

    Args:
        target: The tuned target.
        description: `SearchSpace.to_json()`.
        box: The engine's parameters.

    Raises:
        OutsideSearchSpace: If it is none, or reaches beyond the box.
    """
    try:
        space = SearchSpace.from_json(description)
    except (SpaceError, ValueError, OverflowError) as error:
        raise OutsideSearchSpace(f"this is no search space: {str(error)[:500]}") from error
    if not 1 <= len(space.parameters) <= MAX_PARAMETERS or not all(_is_sane(p) for p in space.parameters):
        raise OutsideSearchSpace(
            f"a search space has 1 to {MAX_PARAMETERS} parameters with identifiers for names and finite numbers"
        )
    if target != ENGINE_TARGET:
        return space
    completed = _with_later_knobs(space, box)
    _check_inside(completed, box)
    return completed


def _with_later_knobs(space: SearchSpace, box: SearchSpace) -> SearchSpace:
    """Return the space of an engine with the knobs that its version lacks, each fixed at its default."""
    names = {parameter.name for parameter in space.parameters}
    missing = [p for p in box.parameters if p.name not in names and p.name not in FIRST_KNOBS]
    if not missing:
        return space
    return SearchSpace((*space.parameters, *missing), {**space.fixed, **{p.name: p.default for p in missing}})


def with_every_knob(target: str, values: Mapping[str, Value]) -> Mapping[str, Value]:
    """Return a config with the engine's knobs that the reporting version lacks, at their defaults."""
    return with_later_knobs(values) if target == ENGINE_TARGET else values


class _AnyIdentifier(CategoryParameter):
    """A category whose choices are not known here."""

    def check(self, value: object) -> Value:
        """Return `value`; raise SpaceError when it is no identifier."""
        if not isinstance(value, str) or not IDENTIFIER.fullmatch(value):
            raise SpaceError(f"{self.name}={value!r} is not allowed; allowed: an identifier")
        return value


def engine_space() -> SearchSpace:
    """Return the space of the engine's results: anything that it allows, whatever any job fixed."""
    return SearchSpace([_of_any_registry(parameter) for parameter in engine_parameters()], {})


def _of_any_registry(parameter: Parameter) -> Parameter:
    if isinstance(parameter, CategoryParameter):
        return _AnyIdentifier(parameter.name, parameter.choices, parameter.default)
    return parameter


def legal_config(space: SearchSpace, values: Mapping[str, Value]) -> Config:
    """Return a config as the space writes it.

    Raises:
        OutsideSearchSpace: If it is not legal.
    """
    try:
        return space.validate(values)
    except (SpaceError, ValueError, OverflowError) as error:
        raise OutsideSearchSpace(str(error)[:500]) from error


def is_legal(space: SearchSpace, values: Mapping[str, Value]) -> bool:
    """Tell whether `legal_config` takes a config."""
    try:
        space.validate(values)
    except (SpaceError, ValueError, OverflowError):
        return False
    return True


def sane_config(values: Mapping[str, Value]) -> Config:
    """Return a config of knobs without a description: identifiers with values that can be stored and shown.

    Raises:
        OutsideSearchSpace: If it has none or too many, or a name or a value is not such.
    """
    odd = [name for name, value in values.items() if not NAME.fullmatch(name) or not _is_short(value)]
    if odd or not 1 <= len(values) <= MAX_PARAMETERS:
        raise OutsideSearchSpace(
            f"a config has 1 to {MAX_PARAMETERS} knobs with identifiers for names and short values; it has "
            f"{len(values)}, of which {len(odd)} are not such{f', as {odd[0][:MAX_TEXT]!r}' if odd else ''}"
        )
    return Config(values)


def _is_sane(parameter: Parameter) -> bool:
    """Tell whether every name and number of a parameter can be stored and shown."""
    if not isinstance(parameter.name, str) or not NAME.fullmatch(parameter.name) or not _is_short(parameter.default):
        return False
    if isinstance(parameter, NumberParameter):
        return _is_sane_number(parameter)
    if isinstance(parameter, CategoryParameter):
        return _is_sane_list(parameter.choices, MAX_CHOICES) and all(isinstance(c, str) for c in parameter.choices)
    return isinstance(parameter.default, bool)


def _is_sane_number(parameter: NumberParameter) -> bool:
    numbers = (parameter.low, parameter.high, parameter.step)
    return (
        all(isinstance(n, (int, float)) and math.isfinite(n) and abs(n) < 2**63 for n in numbers)
        and 0 <= parameter.step <= MAX_STEP
        and parameter.step == int(parameter.step)
        and parameter.scale in get_args(Scale)
        and _is_sane_list(parameter.special, MAX_SPECIAL)
    )


def _is_sane_list(values: object, most: int) -> bool:
    return isinstance(values, tuple) and len(values) <= most and all(map(_is_short, values))


def _is_short(value: object) -> bool:
    if isinstance(value, str):
        return 1 <= len(value) <= MAX_TEXT and value.isprintable()
    return isinstance(value, (int, float)) and abs(value) < LARGEST


def _check_inside(space: SearchSpace, box: SearchSpace) -> None:
    limits = {parameter.name: parameter for parameter in box.parameters}
    names = [parameter.name for parameter in space.parameters]
    if sorted(names) != sorted(limits):
        raise OutsideSearchSpace(f"the parameters are {', '.join(limits)}, not {', '.join(names)}")
    for parameter in space.parameters:
        if not _is_inside(parameter, limits[parameter.name]):
            raise OutsideSearchSpace(
                f"{parameter.name} reaches beyond what is allowed: {limits[parameter.name].allowed}"
            )


def _is_inside(parameter: Parameter, limit: Parameter) -> bool:
    if isinstance(parameter, NumberParameter) and isinstance(limit, NumberParameter):
        is_range_inside = limit.low <= parameter.low and parameter.high <= limit.high
        return is_range_inside and set(parameter.special) <= set(limit.special) and parameter.step >= limit.step
    if isinstance(parameter, CategoryParameter) and isinstance(limit, CategoryParameter):
        return all(IDENTIFIER.fullmatch(choice) for choice in parameter.choices)
    return type(parameter) is type(limit)
