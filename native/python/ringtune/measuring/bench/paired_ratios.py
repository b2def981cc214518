# SPDX-License-Identifier: Apache-2.0
"""The median of paired ratios and its 95 % interval, for candidates measured in turn.

The interval is that of the sign test: between two of the ratios themselves, exact for any distribution, however few or
unlike each other they are. Fewer than six pairs have none.

Source: Conover, Practical Nonparametric Statistics (1999), section 3.2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import comb
from statistics import median

CONFIDENCE = 0.95
MIN_PAIRS = 6  # fewer heads or tails in a row are no rarity: 2 / 2**5 is above 1 - CONFIDENCE


@dataclass(frozen=True)
class Ratio:
    """An estimate with the ends of its interval."""

    median: float
    low: float
    high: float

    def __str__(self) -> str:
        """Return the interval's ends as a table shows them."""
        return f"{self.low:.3f} to {self.high:.3f}"


def paired_ratio(measured: Sequence[float], reference: Sequence[float]) -> Ratio:
    """Return the median of `measured[i] / reference[i]` and its interval.

    Args:
        measured: One value per pair.
        reference: Values with which each is compared, in the same unit.

    Raises:
        ValueError: If there are fewer than `MIN_PAIRS` pairs, or one side has more values than the other.
    """
    ratios = sorted(a / b for a, b in zip(measured, reference, strict=True))
    if len(ratios) < MIN_PAIRS:
        raise ValueError(f"{len(ratios)} pairs have no interval of {CONFIDENCE:.0%}; measure at least {MIN_PAIRS}")
    outside = _outside(len(ratios))
    return Ratio(median(ratios), ratios[outside - 1], ratios[-outside])


def _outside(pairs: int) -> int:
    """Return which value from either end of the sorted ones ends the interval: the quantile of a fair coin's heads."""
    heads_or_fewer = accumulate(comb(pairs, heads) for heads in range(pairs + 1))
    return next(heads for heads, ways in enumerate(heads_or_fewer) if ways / 2**pairs >= (1 - CONFIDENCE) / 2)
