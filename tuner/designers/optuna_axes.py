# SPDX-License-Identifier: Apache-2.0
"""Parameters as Optuna's distributions: numbers on their scale, choices that are numbers as their ranks, categories.

Special values of a number, and choices that are no numbers beside some that are, become a category of their own, beside
the number: Optuna's distributions have no such values.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ringtune.tuner.space.config import Config, Value
from ringtune.tuner.space.parameter_types import (
    NEUTRAL,
    BooleanParameter,
    CategoryParameter,
    NumberParameter,
    Parameter,
)
from ringtune.tuner.space.search_space import SearchSpace

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

Params = Mapping[str, Any]
"""A trial's parameters, as Optuna has them."""


@dataclass(frozen=True)
class Axis:
    """A parameter of the space, as one or two of Optuna's.

    Attributes:
        parameter: The parameter.
    """

    parameter: Parameter

    @property
    def distributions(self) -> "dict[str, BaseDistribution]":
        """Distributions by name: the number's, and the category's; one of them may be absent."""
        from optuna.distributions import CategoricalDistribution  # noqa: PLC0415  (an extra, slow to import)

        found = {} if self._number is None else {self.parameter.name: self._number}
        if self._words:
            words = len(self._words) + (self._number is not None)
            found[self._which] = CategoricalDistribution(range(words))
        return found

    def params(self, config: Config) -> dict[str, Any]:
        """Return a config's value; one that is no number says nothing about the number, which is in the middle."""
        value = config[self.parameter.name]
        is_word = value in self._words
        found = {} if self._number is None else {self.parameter.name: self._middle if is_word else self._place(value)}
        if self._words:
            found[self._which] = self._words.index(value) if is_word else len(self._words)
        return found

    def value(self, params: Params) -> Value:
        """Return the legal value that a trial's parameters stand for."""
        which = params.get(self._which, len(self._words))
        if which < len(self._words):
            return self._words[which]
        place = params[self.parameter.name]
        if isinstance(self.parameter, NumberParameter):
            return self.parameter.nearest(place)
        return self._ordered[place]

    @property
    def _which(self) -> str:
        return f"{self.parameter.name} is"

    @cached_property
    def _ordered(self) -> tuple[str, ...]:
        return self.parameter.ordered if isinstance(self.parameter, CategoryParameter) else ()

    @cached_property
    def _words(self) -> Sequence[Value]:
        """The values that are no numbers of a range."""
        if isinstance(self.parameter, BooleanParameter):
            return (False, True)
        if isinstance(self.parameter, CategoryParameter):
            return tuple(choice for choice in self.parameter.choices if choice not in self._ordered)
        return self.parameter.special

    @cached_property
    def _number(self) -> "BaseDistribution | None":
        """The numbers; None where there is none."""
        from optuna.distributions import FloatDistribution, IntDistribution  # noqa: PLC0415  (as above)

        if not isinstance(self.parameter, NumberParameter):
            return IntDistribution(0, len(self._ordered) - 1) if self._ordered else None
        low, high, is_log = self.parameter.low, self.parameter.high, self.parameter.scale != "linear"
        if self.parameter.step:
            return IntDistribution(math.ceil(low), math.floor(high), log=is_log)
        return FloatDistribution(low, high, log=is_log)

    @property
    def _middle(self) -> Any:
        if isinstance(self.parameter, NumberParameter):
            return self.parameter.decode([*(0.0 for _ in self.parameter.special), NEUTRAL])
        return len(self._ordered) // 2

    def _place(self, value: Value) -> Any:
        return value if isinstance(self.parameter, NumberParameter) else self._ordered.index(str(value))


def axes_of(space: SearchSpace) -> list[Axis]:
    """Return the axes of a space's free parameters."""
    return [Axis(parameter) for parameter in space.free]
