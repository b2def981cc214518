# SPDX-License-Identifier: Apache-2.0
"""A space as a grid of values, as samplers of other libraries take it."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ringtune.tuner import Config
from ringtune.tuner.space.config import Value


@dataclass(frozen=True)
class KnobGrid:
    """Values of knobs.

    Attributes:
        knobs: Distinct values of each knob, in order where they have one.
        default: Config without tuning; its values are among those.
        ordered: Names of the knobs whose values have an order.
    """

    knobs: Mapping[str, tuple[Value, ...]]
    default: Config
    ordered: frozenset[str]

    def place(self, config: Config) -> tuple[int, ...]:
        """Return the index of a config's value on each knob."""
        return place_of(self.knobs, config)

    def config_at(self, place: Sequence[int]) -> Config:
        """Return the config whose values have these indices."""
        return Config({name: values[at] for (name, values), at in zip(self.knobs.items(), place, strict=True)})

    def is_ordered(self, knob: str) -> bool:
        """Return whether the values of a knob have an order."""
        return knob in self.ordered


def place_of(knobs: Mapping[str, tuple[Value, ...]], config: Config) -> tuple[int, ...]:
    """Return the index of a config's value on each knob."""
    return tuple(values.index(config[name]) for name, values in knobs.items())


def number(value: Value) -> float | None:
    """Return the finite number that a value is or spells; None for others."""
    try:
        found = float(value)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
