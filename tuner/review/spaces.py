# SPDX-License-Identifier: Apache-2.0
"""Search space of a run: taken from its log if it is recorded and fits, else derived from the tried values."""

from collections.abc import Sequence

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import BooleanParameter, CategoryParameter, NumberParameter, Parameter, Scale
from ringtune.tuner.space.search_space import SearchSpace

from .summary import RunReview

LOGARITHMIC_RATIO = 8.0
"""Ratio of largest to smallest positive value above which a parameter has a logarithmic scale."""


def space_of(run: RunReview, configs: Sequence[Config]) -> SearchSpace:
    """Return a space in which all `configs` of a run are legal; at least one, all with the same parameters."""
    space = _logged_space(run)
    if space is not None and all(space.contains(config) for config in configs):
        return space
    return observed_space(configs)


def own_names(run: RunReview) -> list[str]:
    """Return the parameters of a run's configs, without those that its search space has fixed: they could not act."""
    names = dict.fromkeys([*(run.baseline or {}), *(run.chosen or {})])
    space = _logged_space(run)
    return [name for name in names if space is None or name not in space.fixed]


def observed_space(configs: Sequence[Config]) -> SearchSpace:
    """Return the space of the tried values; a parameter that never varied is fixed."""
    names = list(dict.fromkeys(name for config in configs for name in config))
    values = {name: list(dict.fromkeys(config[name] for config in configs)) for name in names}
    parameters = [_parameter(name, values[name]) for name in names]
    fixed = {name: values[name][0] for name in names if len(values[name]) == 1}
    return SearchSpace(parameters, fixed)


def _logged_space(run: RunReview) -> SearchSpace | None:
    if run.search_space is None:
        return None
    try:
        return SearchSpace.from_json(run.search_space)
    except (ValueError, TypeError, ArithmeticError):
        return None


def _parameter(name: str, values: Sequence[Value]) -> Parameter:
    """Return a parameter that accepts exactly these kinds of values."""
    words = [value for value in values if isinstance(value, str)]
    switches = [value for value in values if isinstance(value, bool)]
    numbers = sorted(float(value) for value in values if not isinstance(value, bool | str))
    if switches:
        return BooleanParameter(name, default=switches[0])
    if not numbers:
        return CategoryParameter(name, tuple(words), words[0])
    return _number(name, numbers, words, is_whole=not any(isinstance(value, float) for value in values))


def _number(name: str, numbers: Sequence[float], words: Sequence[str], *, is_whole: bool) -> NumberParameter:
    """Return the range of the numbers; zero and words become special values outside it."""
    special: tuple[Value, ...] = tuple(words)
    if numbers[0] == 0 and len(numbers) > 1:
        special, numbers = (0, *special), numbers[1:]
    low, high = numbers[0], numbers[-1] if numbers[-1] > numbers[0] else numbers[0] + max(abs(numbers[0]), 1.0)
    scale: Scale = "log" if low > 0 and high / low > LOGARITHMIC_RATIO else "linear"
    return NumberParameter(name, low, high, int(low) if is_whole else low, scale, int(is_whole), special)
