# SPDX-License-Identifier: Apache-2.0
"""Results that a command prints beside its times: a config that is fast and wrong cannot win.

The first launch without anything set is the reference. Every later launch has to print the same numbers, to a relative
tolerance: other algorithms add in another order, so that bits may differ. A command that finds an error by itself ends
with an exit code above zero.
"""

import math
import re
from collections.abc import Sequence

RESULT_LINE = re.compile(r"ringtune: result=([^\s,;]+)")
"""The line that `step_report` prints for a result."""
DEFAULT_TOLERANCE = 1e-3
MAX_RESULTS = 10_000
"""Results of a launch that are kept and compared."""


def results_in(line: str) -> list[float]:
    """Return the results in a line of a command's output; a word that is no number is NaN."""
    return [_number(match[1]) for match in RESULT_LINE.finditer(line)]


class ResultCheck:
    """Compares a launch's results with those of the baseline.

    Attributes:
        has_reference: True once the baseline has printed results.
    """

    def __init__(self, tolerance: float) -> None:
        """Begin without a reference.

        Args:
            tolerance: Relative difference up to which two results are equal.
        """
        self._tolerance = tolerance
        self._reference: tuple[float, ...] | None = None

    @property
    def has_reference(self) -> bool:
        """True once the baseline has printed results."""
        return bool(self._reference)

    def adopt(self, results: Sequence[float]) -> None:
        """Take the results of the first launch of the baseline for the reference; later ones change nothing."""
        if self._reference is None:
            self._reference = tuple(results)

    def problem(self, results: Sequence[float], *, is_whole: bool) -> str:
        """Return how a launch's results differ from the reference; empty without a difference or a reference.

        Args:
            results: Results of the launch, in their order.
            is_whole: True where the launch ended by itself; otherwise results may be missing at its end.
        """
        reference = self._reference or ()
        for index, (found, wanted) in enumerate(zip(results, reference, strict=False), 1):
            if not self._is_equal(found, wanted):
                return f"gave wrong results: result {index} is {found:.9g}, with nothing set it is {wanted:.9g}"
        if is_whole and len(results) != len(reference):
            return f"printed {len(results)} results, with nothing set there are {len(reference)}"
        return ""

    def _is_equal(self, found: float, wanted: float) -> bool:
        return math.isclose(found, wanted, rel_tol=self._tolerance) or (math.isnan(found) and math.isnan(wanted))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan
