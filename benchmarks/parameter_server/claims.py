# SPDX-License-Identifier: Apache-2.0
"""Paired comparisons of a round's trials: ratios with their intervals, and the claims that they test.

Trials of a round see the same images and the same machine, so a ratio is taken inside a round. The interval is
Student's t of the logarithms, two-sided at 95 %.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, stdev

from ringtune.tuner.statistics.student_t import student_t_quantile

from .plan import ALONE, LEARNING_RATE, SLOWDOWN
from .rows import Row
from .trial import ASYNC, ONE_HOST, SYNC

CONFIDENCE = 0.95
MIN_ROUNDS = 3
"""Number of pairs from which an interval is shown: with two it spans orders of magnitude."""


@dataclass(frozen=True)
class Cell:
    """Key of a trial within its round."""

    way: str
    servers: int
    workers: int
    place: str
    slowdown: float = 1.0
    learning_rate: float = LEARNING_RATE

    def holds(self, row: Row) -> bool:
        """Return whether a row is of this cell."""
        return self == Cell(row.way, row.servers, row.workers, row.place, row.slowdown, row.learning_rate)


@dataclass(frozen=True)
class Ratio:
    """Geometric mean of paired ratios, with an interval where there are enough of them.

    Attributes:
        mean: The estimate.
        low: Lower end.
        high: Upper end.
        pairs: Number of rounds that have both.
    """

    mean: float
    low: float
    high: float
    pairs: int

    def __str__(self) -> str:
        """Return the text of a table's cell."""
        if self.pairs < MIN_ROUNDS:
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ({self.low:.2f} to {self.high:.2f})"


def ratio_of(values: Sequence[float], references: Sequence[float]) -> Ratio:
    """Return the ratio of paired positive values.

    Raises:
        ValueError: If there is no pair.
    """
    if not values:
        raise ValueError("there is no round that has both trials; measure them in one run")
    logs = [math.log(value / reference) for value, reference in zip(values, references, strict=True)]
    center, margin = fmean(logs), 0.0
    if len(logs) >= MIN_ROUNDS:
        quantile = student_t_quantile(len(logs) - 1, 0.5 + CONFIDENCE / 2)
        margin = quantile * stdev(logs) / math.sqrt(len(logs))
    return Ratio(math.exp(center), math.exp(center - margin), math.exp(center + margin), len(logs))


class Claims:
    """Rows of a comparison, and the ratios that test a claim."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """Take the rows of all rounds."""
        self._rows = rows

    @property
    def rounds(self) -> int:
        """Number of rounds."""
        return len({row.number for row in self._rows})

    @property
    def load(self) -> float:
        """Largest load average before a run."""
        return max(row.load for row in self._rows)

    def of(self, cell: Cell) -> list[Row]:
        """Return a cell's rows, by round."""
        return sorted((row for row in self._rows if cell.holds(row)), key=lambda row: row.number)

    def median(self, cell: Cell, value: Callable[[Row], float]) -> float:
        """Return the median of a value over rounds."""
        return median(value(row) for row in self.of(cell))

    def ratio(self, cell: Cell, reference: Cell, value: Callable[[Row, Row], tuple[float, float]]) -> Ratio:
        """Return the ratio of two cells, round by round.

        Args:
            cell: Numerator.
            reference: Denominator.
            value: Takes both rows of a round and returns both numbers.
        """
        references = {row.number: row for row in self.of(reference)}
        pairs = [value(row, references[row.number]) for row in self.of(cell) if row.number in references]
        return ratio_of([pair[0] for pair in pairs], [pair[1] for pair in pairs])

    def step_ratio(self, cell: Cell, reference: Cell) -> Ratio:
        """Return the ratio of step times."""
        return self.ratio(cell, reference, lambda row, other: (row.step_ms, other.step_ms))

    def slowed(self, cell: Cell) -> Ratio:
        """Return the examples per second with one slow worker, as a share of those without."""
        slow = Cell(cell.way, cell.servers, cell.workers, cell.place, SLOWDOWN)
        return self.ratio(slow, cell, lambda row, other: (row.examples_per_s, other.examples_per_s))

    def loss_at_equal_time(self, cell: Cell, reference: Cell) -> Ratio:
        """Return the ratio of losses at the end of a trial."""
        return self.ratio(cell, reference, lambda row, other: (row.final_loss, other.final_loss))

    def loss_at_equal_gradients(self, cell: Cell, reference: Cell) -> Ratio:
        """Return the ratio of losses after as many gradients as both have applied."""

        def losses(row: Row, other: Row) -> tuple[float, float]:
            gradients = min(row.gradients, other.gradients)
            return row.loss_after(gradients, 1), other.loss_after(gradients, 1)

        return self.ratio(cell, reference, losses)


def stale_cell(workers: int, rate: float) -> Cell:
    """Return the asynchronous cell of the trials of stale gradients."""
    return Cell(ASYNC, 1, workers, ONE_HOST, learning_rate=rate)


def fresh_cell(workers: int, rate: float) -> Cell:
    """Return the synchronous one."""
    return Cell(SYNC, 1, workers, ONE_HOST, learning_rate=rate)


def alone_cell(rate: float) -> Cell:
    """Return the one of a single worker."""
    return Cell(ALONE.way, ALONE.servers, ALONE.workers, ALONE.place, learning_rate=rate)
