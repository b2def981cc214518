# SPDX-License-Identifier: Apache-2.0
"""Results that a command prints beside its times: a config that is fast and wrong cannot win.

The first launch without anything set is the reference. Every later launch has to print the same numbers in the same
order, to a relative tolerance: other algorithms add in another order, so that bits may differ. NaN never equals
another result. The baseline's own launches are compared as well: their spread says how sharp the comparison can be.
A command that finds an error by itself ends with an exit code above zero.
"""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from .scores import one_group

RESULT_LINE = re.compile(r"ringtune: result=([^\s,;]+)")
"""The line that `step_report` prints for a result."""
DEFAULT_TOLERANCE = 1e-3
MAX_RESULTS = 10_000
"""Results of a launch that are kept and compared."""


@dataclass(frozen=True)
class ResultPattern:
    """Pattern of the results in a command's output.

    Attributes:
        pattern: Regular expression with one group, around the number.
    """

    pattern: re.Pattern[str] = RESULT_LINE

    @classmethod
    def of(cls, text: str | None) -> "ResultPattern":
        """Return the pattern of a text; None for the lines of `step_report`.

        Raises:
            ConfigError: If it is no regular expression, or has not one group.
        """
        return STEP_REPORT_RESULTS if text is None else cls(one_group(text, "--result-regex"))

    def results_in(self, line: str) -> list[float]:
        """Return the results in a line of a command's output; a word that is no number is NaN."""
        return [_number(match[1] or "") for match in self.pattern.finditer(line)]


STEP_REPORT_RESULTS = ResultPattern()


@dataclass(frozen=True)
class Comparison:
    """Extent to which results were compared.

    Attributes:
        count: Results that each launch prints; 0 where the command prints none.
        tolerance: Relative difference up to which two results are equal.
        spread: Largest relative difference between launches of the baseline.
        repeats: Launches of the baseline that were compared with the first.
    """

    count: int
    tolerance: float
    spread: float
    repeats: int


class ResultCheck:
    """Compares a launch's results with those of the baseline."""

    def __init__(self, tolerance: float) -> None:
        """Begin without a reference.

        Args:
            tolerance: Relative difference up to which two results are equal.
        """
        self._tolerance = tolerance
        self._reference: tuple[float, ...] | None = None
        self._spread = 0.0
        self._repeats = 0

    @property
    def comparison(self) -> Comparison:
        """Extent of the comparison so far."""
        return Comparison(len(self._reference or ()), self._tolerance, self._spread, self._repeats)

    def baseline_problem(self, results: Sequence[float], *, is_whole: bool) -> str:
        """Return how a launch of the baseline differs from its first one, which is the reference; empty if it agrees.

        Args:
            results: Results of the launch, in their order.
            is_whole: True where the launch ended by itself, as in `problem`.
        """
        if self._reference is None:
            self._reference = tuple(results)
            wrong = next((index for index, value in enumerate(results, 1) if math.isnan(value)), 0)
            return f"gives a result that is no number: result {wrong} is nan" if wrong else ""
        spreads = [relative_difference(a, b) for a, b in zip(results, self._reference, strict=False)]
        self._spread = max([self._spread, *spreads])
        self._repeats += 1
        problem = self.problem(results, is_whole=is_whole)
        if not problem or self._spread <= self._tolerance:
            return problem
        worst = spreads.index(max(spreads))
        return (
            f"does not repeat its own results: result {worst + 1} was {self._reference[worst]:.9g} and is "
            f"{results[worst]:.9g}, a spread of {self._spread:.2g} over {self._repeats + 1} launches; "
            f"the tolerance is {self._tolerance:g}"
        )

    def problem(self, results: Sequence[float], *, is_whole: bool) -> str:
        """Return how a launch's results differ from the reference; empty without a difference or a reference.

        Args:
            results: Results of the launch, in their order.
            is_whole: True where the launch ended by itself; otherwise results may be missing at its end.
        """
        reference = self._reference or ()
        for index, (found, wanted) in enumerate(zip(results, reference, strict=False), 1):
            if not relative_difference(found, wanted) <= self._tolerance:
                return f"gave wrong results: result {index} is {found:.9g}, with nothing set it is {wanted:.9g}"
        if is_whole and len(results) != len(reference):
            return f"printed {len(results)} results, with nothing set there are {len(reference)}"
        return ""


def relative_difference(one: float, other: float) -> float:
    """Return the difference of two numbers, relative to the larger one; infinite where one of them is no number."""
    if one == other:
        return 0.0
    scale = max(abs(one), abs(other))
    return abs(one - other) / scale if math.isfinite(scale) else math.inf


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
