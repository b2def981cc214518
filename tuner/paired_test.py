# SPDX-License-Identifier: Apache-2.0
"""The paired sequential test: whether a challenger's steps are shorter than the baseline's, from interleaved pairs.

| symbol | meaning |
|---|---|
| d | ln(typical default step / typical challenger step) of one pair; above zero where the challenger is faster |
| v | variance of d that the scatter of its windows' steps lets expect |
| n | number of pairs |
| phi | variance of d over v: of the pairs, and while they are few, of what the samples before them say |

A pair counts as 1 / v: what disturbs a window mostly makes its steps scatter, too. v is the same whichever of the two
was disturbed, so that a challenger that gains nothing gains nothing by it.

The test looks after every pair and ends early where the answer is plain: for the challenger only by a bound so far out
that many looks do not add up (Haybittle 1971, "Repeated assessment of results in clinical trials of cancer treatment"),
so that the last look has the error rate of a single one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from .pair_noise import MIN_PAIRS, PairNoise, window_variance
from .sample import Sample
from .scatter import Scatter
from .student_t import student_t_quantile

CONFIDENCE = 0.95
"""Of the two-sided interval that is reported."""
EARLY_ERROR = 0.001
"""Of challengers that gain nothing, what share a look before the last one adopts."""


class Errors(NamedTuple):
    """Of challengers that gain nothing, what share a test adopts.

    Attributes:
        last: With its last look.
        fewest: If there are but MIN_PAIRS by then.
    """

    last: float
    fewest: float

    def of(self, pairs: int) -> float:
        """Return that of a test that ends with so many pairs."""
        return self.last if pairs > MIN_PAIRS else self.fewest


FIRST_TEST = Errors(0.05, 0.025)
"""Of what was not tested before.

One-sided, so that the lower bound of the interval that is reported may be a little below zero where the challenger is
adopted. A challenger that gains nothing costs nothing, one that gains and is not adopted costs its gain, and of those
that lose far fewer pass. So few pairs rest mostly on what was known of the noise before them: where that was too
little, their errors double.
"""
LATER_TEST = Errors(0.2, 0.1)
"""Of what an earlier run of the same question has adopted: of challengers that gain nothing both tests adopt 1 %."""
FUTILITY_PAIRS = 4
"""From so many pairs on, the test ends when even the upper bound is below zero."""


class Pair(NamedTuple):
    """What the windows of a pair tell.

    Attributes:
        baseline_ms: The baseline's typical step time, milliseconds.
        challenger_ms: The challenger's.
        variance: What ln(baseline / challenger) should have; pairs of equal ones count alike.
    """

    baseline_ms: float
    challenger_ms: float
    variance: float = 1.0

    @classmethod
    def of(cls, baseline: Sample, challenger: Sample, scatter: Scatter) -> "Pair":
        """Return the pair of two windows, of a job whose steps scatter so."""
        variance = window_variance(baseline, scatter) + window_variance(challenger, scatter)
        return cls(baseline.typical_ms, challenger.typical_ms, variance)

    @property
    def log_ratio(self) -> float:
        """Return ln(baseline / challenger)."""
        return math.log(self.baseline_ms / self.challenger_ms)


@dataclass(frozen=True)
class Interval:
    """A speed-up as a fraction, with a two-sided interval."""

    speedup: float
    low: float
    high: float


@dataclass
class PairedTest:
    """Pairs as they come, and what they say.

    Attributes:
        expected: What the samples before the test say of phi.
        pairs: Those measured.
        errors: How often it may err.
    """

    expected: PairNoise
    pairs: list[Pair] = field(default_factory=list)
    errors: Errors = FIRST_TEST

    @property
    def interval(self) -> Interval:
        """The speed-up with its 95 % interval; needs MIN_PAIRS pairs."""
        return speedup_interval(self.pairs, self.expected)

    @property
    def is_shown(self) -> bool:
        """Whether the challenger is faster, at the last look's error rate; needs MIN_PAIRS pairs."""
        return self._is_faster(self.errors.of(len(self.pairs)))

    @property
    def is_plain(self) -> bool:
        """Whether more pairs would not change the answer."""
        if len(self.pairs) < MIN_PAIRS:
            return False
        return self._is_faster(EARLY_ERROR) or (len(self.pairs) >= FUTILITY_PAIRS and self.interval.high < 0)

    def _is_faster(self, error: float) -> bool:
        """Tell whether the speed-up is above zero at a one-sided error rate."""
        return speedup_interval(self.pairs, self.expected, 1.0 - 2.0 * error).low > 0


def speedup_interval(
    pairs: Sequence[Pair], expected: PairNoise | None = None, confidence: float = CONFIDENCE
) -> Interval:
    """Return exp(mean d) - 1 with a two-sided interval of Student's t over the pairs, each weighed by its precision.

    Args:
        pairs: At least MIN_PAIRS, of step times and variances above zero.
        expected: What the samples before the test say of phi; None: the pairs alone count.
        confidence: Of the interval.
    """
    d = np.array([pair.log_ratio for pair in pairs])
    precisions = np.array([1.0 / pair.variance for pair in pairs])
    mean = float(np.average(d, weights=precisions))
    freedom: float = len(d) - 1
    squares = float(precisions @ (d - mean) ** 2)
    if expected is not None:
        weight = expected.weight_beside(len(d))
        freedom += weight
        squares += weight * expected.scale
    standard_error = math.sqrt(squares / freedom / float(precisions.sum()))
    margin = student_t_quantile(freedom, 0.5 + confidence / 2) * standard_error
    return Interval(math.expm1(mean), math.expm1(mean - margin), math.expm1(mean + margin))
