# SPDX-License-Identifier: Apache-2.0
"""Types of parameters: numbers, booleans, categories. Each validates, encodes and decodes its own values.

All types share one interface: `check` (normalise or reject), `allowed` (the range as text), `count` (number of values),
`coordinates` (length of the encoding), `encode`, `decode`, `to_json`, and `at_quantile` (the value at a quantile in
[0, 1], so that uniform numbers spread over the values).
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, TypeAlias

from .config import Value

Scale: TypeAlias = Literal["linear", "log", "log2"]
"""Scale on which equal steps of a number matter equally."""

SPECIAL_SHARE = 0.15
"""Share of the quantiles for each special value: about three of twenty random configs."""
NEUTRAL = 0.5
"""Numeric coordinate of a special value that is no number: the middle of the range, far from both ends."""
SIGNIFICANT_DIGITS = 4
"""Precision of fractional numbers: finer than any effect, and coarse enough for readable and equal configs."""


class SpaceError(ValueError):
    """A value or config is not allowed; the message has the value and the allowed ones."""


def _is_same(value: object, special: Value) -> bool:
    """Return whether two values are equal and both booleans or neither: True equals 1, but a switch is no number."""
    return value == special and isinstance(value, bool) == isinstance(special, bool)


@dataclass(frozen=True)
class NumberParameter:
    """A number from `low` to `high` (both inclusive), or one of the `special` values such as "auto".

    Attributes:
        name: Name with its unit.
        low: Smallest number, in the unit of the name; above zero on a logarithmic scale.
        high: Largest number, same unit.
        default: Built-in value: a number in the range or a special value.
        scale: Scale on which equal steps matter equally.
        step: Resolution of the search for a whole number: decoded values are multiples of it, but every whole number
            of the range is allowed. 0 for a fractional number.
        special: Values outside the range with their own meaning; each has an indicator coordinate.
    """

    name: str
    low: float
    high: float
    default: Value
    scale: Scale = "linear"
    step: int = 0
    special: tuple[Value, ...] = ()

    def __post_init__(self) -> None:
        """Reject an empty or infinite range, a logarithmic one that touches zero, and a default that is not allowed."""
        if not -math.inf < self.low < self.high < math.inf or (self.scale != "linear" and self.low <= 0):
            raise SpaceError(f"{self.name}: a {self.scale} range from {self.low} to {self.high} is not possible")
        self.check(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values as text for messages."""
        special = "".join(f"{value} or " for value in self.special)
        return f"{special}{self._plain(self.low)} to {self._plain(self.high)}"

    @property
    def count(self) -> float:
        """The number of values that a search can reach, the default included; infinite for a fractional number."""
        if not self.step:
            return math.inf
        is_beside = self.default not in self.special and self.default != self.nearest(float(self.default))
        grid = round(self.high / self.step) - round(self.low / self.step) + 1
        return grid + len(self.special) + is_beside

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a value: one indicator per special value, and the number."""
        return len(self.special) + 1

    def check(self, value: object) -> Value:
        """Return `value` as an int, a float or a special value; raise SpaceError if it is not allowed."""
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
        """Return the allowed value nearest to `coordinates`, which may be any finite numbers."""
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
        """Return the nearest number of the range, rounded to the resolution; `number` must be finite."""
        if self.step:
            return int(min(max(round(number / self.step) * self.step, self.low), self.high))
        return float(min(max(float(f"{number:.{SIGNIFICANT_DIGITS}g}"), self.low), self.high))

    @cached_property
    def _bounds(self) -> tuple[float, float]:
        return self._scaled(self.low), self._scaled(self.high)

    def _share(self, value: Value) -> float:
        """Return the position in the range, 0 to 1; a special number beyond it, such as 0 for off, is at an end."""
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
        """The allowed values as text for messages."""
        return "true or false"

    @property
    def count(self) -> float:
        """The number of values."""
        return 2

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a value: one, 0 or 1."""
        return 1

    def check(self, value: object) -> Value:
        """Return `value`; raise SpaceError if it is not a bool (0 and 1 are numbers)."""
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
    """A choice of several names. Names that are numbers are ordered; equal steps between them matter equally.

    A list of powers of two is therefore logarithmic, and one of even steps is linear. Other names are unordered.
    """

    name: str
    choices: tuple[str, ...]
    default: str

    def __post_init__(self) -> None:
        """Reject a default that is not among the choices."""
        self.check(self.default)

    @property
    def allowed(self) -> str:
        """The allowed values as text for messages."""
        return ", ".join(self.choices)

    @property
    def count(self) -> float:
        """The number of values."""
        return len(self.choices)

    @property
    def coordinates(self) -> int:
        """The number of coordinates of a value: an indicator per unordered choice, and a rank if some are ordered."""
        return len(self._unordered) + bool(self.ordered)

    @cached_property
    def ordered(self) -> tuple[str, ...]:
        """The choices that are numbers, in ascending order; none if there are fewer than two."""
        numbers = sorted((float(choice), choice) for choice in self.choices if _is_number(choice))
        return tuple(choice for _, choice in numbers) if len(numbers) > 1 else ()

    @cached_property
    def _unordered(self) -> tuple[str, ...]:
        return tuple(choice for choice in self.choices if choice not in self.ordered)

    def check(self, value: object) -> Value:
        """Return `value`; raise SpaceError if it is not among the choices."""
        if not isinstance(value, str) or value not in self.choices:
            raise SpaceError(f"{self.name}={value!r} is not allowed; allowed: {self.allowed}")
        return value

    def encode(self, value: Value) -> list[float]:
        """Return an indicator per unordered choice, then the rank among the ordered ones in [0, 1]."""
        indicators = [float(value == choice) for choice in self._unordered]
        if not self.ordered:
            return indicators
        rank = self.ordered.index(str(value)) / (len(self.ordered) - 1) if value in self.ordered else NEUTRAL
        return [*indicators, rank]

    def decode(self, coordinates: Sequence[float]) -> Value:
        """Return the unordered choice with the largest indicator, or else the nearest ordered one."""
        unordered, indicators = self._unordered, coordinates[: len(self._unordered)]
        if unordered and (not self.ordered or max(indicators) > NEUTRAL):
            return unordered[max(range(len(unordered)), key=lambda index: indicators[index])]
        last = len(self.ordered) - 1
        return self.ordered[round(min(max(coordinates[-1], 0.0), 1.0) * last)]

    def at_quantile(self, quantile: float) -> Value:
        """Return the choice at `quantile`; all choices have equal shares of [0, 1]."""
        return self.choices[min(int(quantile * len(self.choices)), len(self.choices) - 1)]

    def to_json(self) -> dict[str, Any]:
        """Return the parameter's description, ready for `json.dumps`."""
        return {"kind": "category", "name": self.name, "choices": list(self.choices), "default": self.default}


def _is_number(text: str) -> bool:
    try:
        return math.isfinite(float(text))
    except ValueError:
        return False


Parameter: TypeAlias = NumberParameter | BooleanParameter | CategoryParameter


def parameter_from_json(data: Mapping[str, Any]) -> Parameter:
    """Rebuild a parameter from `to_json`.

    Raises:
        SpaceError: If the description is incomplete or its kind is unknown.
    """
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items() if key != "kind"}
    kinds: dict[str, Callable[..., Parameter]]
    kinds = {"number": NumberParameter, "boolean": BooleanParameter, "category": CategoryParameter}
    try:
        return kinds[data["kind"]](**fields)
    except (KeyError, TypeError) as error:
        raise SpaceError(f"not a description of a parameter: {dict(data)!r}") from error
