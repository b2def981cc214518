# SPDX-License-Identifier: Apache-2.0
"""Axes for parameters: numbers on their scale, values such as "auto" beside them, switches and names in a row."""

import math
from collections.abc import Sequence
from typing import Any

from ringtune.tuner.space.config import Value
from ringtune.tuner.space.readable import readable_value

from .figure import plain

SPECIAL_STEP = 0.12
"""Share of the axis that a value beside the numbers takes."""
TICKS = 5
LOGARITHMIC_RATIO = 4.0


class ValueAxis:
    """Places the values of a parameter on [0, 1].

    Attributes:
        name: The parameter.
    """

    def __init__(self, name: str, values: Sequence[Value]) -> None:
        """Make room for these values, at least one."""
        self.name = name
        numbers = sorted({float(v) for v in values if not isinstance(v, bool | str) and v != 0})
        self._ends: tuple[float, float] | None = None
        self._is_log = len(numbers) > 1 and numbers[0] > 0 and numbers[-1] / numbers[0] > LOGARITHMIC_RATIO
        if len(numbers) > 1:
            self._ends = (self._scaled(numbers[0]), self._scaled(numbers[-1]))
        self._words = sorted({value for value in values if not self.is_on_line(value)}, key=str)

    @property
    def has_numbers(self) -> bool:
        """Return whether a part of the axis is a line of numbers."""
        return self._ends is not None

    def is_on_line(self, value: Value) -> bool:
        """Tell whether a value lies on the line of numbers, and not beside it."""
        return self._ends is not None and not isinstance(value, bool | str) and value != 0

    def position(self, value: Value) -> float:
        """Return where a value lies."""
        if self._ends is not None and self.is_on_line(value):
            low, high = self._ends
            start = self._line_start
            return start + (1.0 - start) * (self._scaled(float(value)) - low) / (high - low)
        if value not in self._words:
            return 0.0
        index = self._words.index(value)
        return index * SPECIAL_STEP if self._ends is not None else (index + 0.5) / len(self._words)

    def number_at(self, share: float) -> float:
        """Return the number at a share in [0, 1] of the line of numbers."""
        if self._ends is None:
            raise ValueError(f"the axis of {self.name} has no line of numbers")
        scaled = self._ends[0] + share * (self._ends[1] - self._ends[0])
        return float(2.0**scaled) if self._is_log else scaled

    def ticks(self) -> tuple[list[float], list[str]]:
        """Return positions and labels."""
        values: list[Value] = list(self._words)
        positions = [self.position(value) for value in values]
        labels = [plain(readable_value(self.name, value)) for value in values]
        for index in range(TICKS if self._ends is not None else 0):
            share = index / (TICKS - 1)
            positions.append(self._line_start + (1.0 - self._line_start) * share)
            number = self.number_at(share)
            rounded: Value = round(number) if self.name.endswith("_bytes") else float(f"{number:.3g}")
            labels.append(plain(readable_value(self.name, rounded)))
        return positions, labels

    def layout(self) -> dict[str, Any]:
        """Return the axis for Plotly's layout."""
        positions, labels = self.ticks()
        ticks = {"tickmode": "array", "tickvals": positions, "ticktext": labels}
        title = {"text": plain(self.name), "standoff": 12}
        return {"title": title, "range": [-0.05, 1.05], "zeroline": False, "automargin": True, **ticks}

    @property
    def _line_start(self) -> float:
        return min(SPECIAL_STEP * len(self._words), 0.5)

    def _scaled(self, number: float) -> float:
        return math.log2(number) if self._is_log else number
