# SPDX-License-Identifier: Apache-2.0
"""The kinds of parameters: numbers, booleans, categories. Each checks, encodes and decodes its own values.

Every kind offers the same six things: `check` (normalise or refuse), `allowed` (the range in words), `coordinates`
(how many numbers encode a value), `encode`, `decode` and `at_quantile` (a value for a number in [0, 1], so that
uniform numbers give a sensible spread over the values).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from .config import Value

Scale: TypeAlias = Literal["linear", "log", "log2"]

SPECIAL_SHARE = 0.15
"""Share of the quantiles that each special value takes: enough for about three of twenty random configs."""
NEUTRAL = 0.5
"""The numeric coordinate of a special value that is no number: the middle, as far from both ends as can be."""
SIGNIFICANT_DIGITS = 4
"""Fractional numbers are rounded to this, finer than any effect, so that configs read well and compare equal."""


class SpaceError(ValueError):
    """A value or config lies outside what is allowed; the message says what, and what is allowed."""


def _is_same(value: object, special: Value) -> bool:
    """Tell equality apart from coincidence: True equals 1, but a switch is not a number."""
    return value == special and isinstance(value, bool) == isinstance(special, bool)


@dataclass(frozen=True)
class NumberParameter:
    """A number between `low` and `high` (both included), or one of the `special` values such as "auto".

    Attributes:
        name: The parameter's name, with its unit.
        low: Smallest number, in the unit of the name; above zero on a logarithmic scale.
        high: Largest number.
        default: Built-in value: a number in range or a special value.
        scale: On what scale equal steps matter equally.
        step: Resolution of the search: decoded values are its multiples, and any whole number of the range is allowed.
            0 for a fractional number.
        special: Values outside the range with a meaning of their own; each has an indicator coordinate.
    """

    name: str
    low: float
    high: float
    default: Value
    scale: Scale = "linear"
    step: int = 0
    special: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        """Refuse an empty range, a logarithmic one that touches zero, and a default that is not allowed."""
        if not self.low < self.high or (self.scale != "linear" and self.low <= 0):
            raise SpaceError(f"{self.name}: a {self.scale} range from {self.low} to {self.high} is not possible")
        self.check(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values in words, for messages."""
        special = "".join(f"{value} or " for value in self.special)
        return f"{special}{self._plain(self.low)} to {self._plain(self.high)}"

    @property
    def count(self) -> float:
        """How many values there are: infinitely many, for a range is always worth searching."""
        return math.inf

    @property
    def coordinates(self) -> int:
        """How many coordinates encode a value: an indicator per special value, and the number."""
        return len(self.special) + 1

    def check(self, value: object) -> Value:
        """Return `value` as this kind writes it (int or float); raise SpaceError when it is not allowed."""
        for special in self.special:
            if _is_same(value, special):
                return special
        if isinstance(value, (int, float)) and not isinstance(value, bool) and self.low <= value <= self.high:
            if not self.step:
                return float(value)
            if value == int(value):
                return int(value)
        raise SpaceError(f"{self.name}={value!r} is not allowed; allowed: {self.allowed}")

    def encode(self, value: Value) -> list[float]:
        """Return the coordinates of an allowed value, each in [0, 1]."""
        indicators = [float(_is_same(value, special)) for special in self.special]
        return [*indicators, self._share(value)]

    def decode(self, coordinates: Sequence[float]) -> Value:
        """Return the allowed value nearest to `coordinates`, of any finite size."""
        indicators = list(coordinates[:-1])
        if indicators and max(indicators) > NEUTRAL:
            return self.special[indicators.index(max(indicators))]
        return self._number(coordinates[-1])

    def at_quantile(self, quantile: float) -> Value:
        """Return the value at `quantile` in [0, 1]: special values first, then the range on its scale."""
        specials = SPECIAL_SHARE * len(self.special)
        if quantile < specials:
            return self.special[min(int(quantile / SPECIAL_SHARE), len(self.special) - 1)]
        return self._number((quantile - specials) / (1.0 - specials))

    def to_json(self) -> dict[str, Any]:
        """Return the parameter's description, ready for `json.dumps`."""
        return {
            "kind": "number",
            "name": self.name,
            "low": self.low,
            "high": self.high,
            "default": self.default,
            "scale": self.scale,
            "step": self.step,
            "special": list(self.special),
        }

    def nearest(self, number: float) -> Value:
        """Return the number in the range that is nearest to a finite one, and as this kind writes it."""
        if self.step:
            return int(min(max(round(number / self.step) * self.step, self.low), self.high))
        return float(min(max(float(f"{number:.{SIGNIFICANT_DIGITS}g}"), self.low), self.high))

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        return self._scaled(self.low), self._scaled(self.high)

    def _share(self, value: Value) -> float:
        """Return the place in the range: its end where a special number lies beyond, as 0 for *off* does."""
        if isinstance(value, str):
            return NEUTRAL
        if not self.low < value < self.high:
            return float(value >= self.high)
        low, high = self._bounds
        return (self._scaled(float(value)) - low) / (high - low)

    def _number(self, share: float) -> Value:
        low, high = self._bounds
        return self.nearest(self._unscaled(low + min(max(share, 0.0), 1.0) * (high - low)))

    def _scaled(self, number: float) -> float:
        return number if self.scale == "linear" else math.log2(number)

    def _unscaled(self, scaled: float) -> float:
        return scaled if self.scale == "linear" else 2.0**scaled

    def _plain(self, number: float) -> str:
        return f"{int(number)}" if self.step else f"{number:g}"


@dataclass(frozen=True)
class BooleanParameter:
    """A switch."""

    name: str
    default: bool

    @property
    def allowed(self) -> str:
        """The allowed values in words, for messages."""
        return "true or false"

    @property
    def count(self) -> float:
        """How many values there are."""
        return 2

    @property
    def coordinates(self) -> int:
        """How many coordinates encode a value: one, 0 or 1."""
        return 1

    def check(self, value: object) -> Value:
        """Return `value`; raise SpaceError when it is not a bool (0 and 1 are not)."""
        if not isinstance(value, bool):
            raise SpaceError(f"{self.name}={value!r} is not allowed; allowed: {self.allowed}")
        return value

    def encode(self, value: Value) -> list[float]:
        """Return the one coordinate, 0.0 or 1.0."""
        return [float(value)]

    def decode(self, coordinates: Sequence[float]) -> Value:
        """Return whether the coordinate lies in the upper half."""
        return coordinates[0] > NEUTRAL

    def at_quantile(self, quantile: float) -> Value:
        """Return False for the lower half of the quantiles, else True."""
        return quantile > NEUTRAL

    def to_json(self) -> dict[str, Any]:
        """Return the parameter's description, ready for `json.dumps`."""
        return {"kind": "boolean", "name": self.name, "default": self.default}


@dataclass(frozen=True)
class CategoryParameter:
    """One of several names without an order."""

    name: str
    choices: tuple[str, ...]
    default: str

    def __post_init__(self) -> None:
        """Refuse a default that is not among the choices."""
        self.check(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values in words, for messages."""
        return ", ".join(self.choices)

    @property
    def count(self) -> float:
        """How many values there are."""
        return len(self.choices)

    @property
    def coordinates(self) -> int:
        """How many coordinates encode a value: one indicator per choice."""
        return len(self.choices)

    def check(self, value: object) -> Value:
        """Return `value`; raise SpaceError when it is not among the choices."""
        if not isinstance(value, str) or value not in self.choices:
            raise SpaceError(f"{self.name}={value!r} is not allowed; allowed: {self.allowed}")
        return value

    def encode(self, value: Value) -> list[float]:
        """Return an indicator per choice."""
        return [float(value == choice) for choice in self.choices]

    def decode(self, coordinates: Sequence[float]) -> Value:
        """Return the choice with the largest indicator, the first of equals."""
        return self.choices[max(range(len(self.choices)), key=lambda index: coordinates[index])]

    def at_quantile(self, quantile: float) -> Value:
        """Return the choice whose equal share of [0, 1] holds `quantile`."""
        return self.choices[min(int(quantile * len(self.choices)), len(self.choices) - 1)]

    def to_json(self) -> dict[str, Any]:
        """Return the parameter's description, ready for `json.dumps`."""
        return {"kind": "category", "name": self.name, "choices": list(self.choices), "default": self.default}


Parameter: TypeAlias = NumberParameter | BooleanParameter | CategoryParameter


def parameter_from_json(data: Mapping[str, Any]) -> Parameter:
    """Rebuild a parameter from `to_json`.

    Raises:
        SpaceError: If the description is of no known kind, or incomplete.
    """
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key != "kind"}
    kinds: dict[str, Callable[..., Parameter]]
    kinds = {"number": NumberParameter, "boolean": BooleanParameter, "category": CategoryParameter}
    try:
        return kinds[data["kind"]](**fields)
    except (KeyError, TypeError) as error:
        raise SpaceError(f"this is no description of a parameter: {dict(data)!r}") from error
