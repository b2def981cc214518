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

The interval that is reported decides: the challenger is adopted where its lower end, the bound of a one-sided test at
5 %, lies above zero. There is one level for every test, so that nothing is adopted whose interval reaches below zero.

The test looks after every pair and ends early where the answer is plain: for the challenger only by a bound so far out
that many looks do not add up (Haybittle 1971, "Repeated assessment of results in clinical trials of cancer treatment"),
so that the last look has the error rate of a single one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from ringtune.tuner.sample import Sample

from .pair_noise import MIN_PAIRS, PairNoise, window_variance
from .step_noise import Scatter
from .student_t import student_t_quantile

ERROR = 0.05
"""Share of challengers that gain nothing which the test adopts, one-sided.

Half of it would be stricter than the harm: a challenger that gains nothing costs nothing where it is adopted, one that
gains costs its gain where it is not, and of those that lose far fewer pass.
"""
CI_LEVEL = 1.0 - 2.0 * ERROR
"""Level of the two-sided interval that is reported; its lower end is the test's bound."""
NOISE_SHARE = 0.5
"""Share of ERROR that MIN_PAIRS pairs leave to phi being expected too small: they say next to nothing of it themselves.

Without it 8.7 instead of 2.8 of 100 tests of two pairs err where windows differ by 2 %:
`python -m benchmarks.tuner.adoption_error`.
"""
EARLY_ERROR = 0.001
"""Share of challengers that gain nothing which one look before the last adopts."""
FUTILITY_PAIRS = 4
"""From so many pairs on, the test ends when even the upper bound is below zero."""


def error_of(pairs: int) -> float:
    """Return the tail of Student's t beyond each end of the interval of so many pairs."""
    return ERROR if pairs > MIN_PAIRS else NOISE_SHARE * ERROR


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

    @property
    def is_gain(self) -> bool:
        """Whether all of it lies above zero."""
        return self.low > 0


@dataclass
class PairedTest:
    """Pairs as they come, and what they say.

    Attributes:
        expected: What the samples before the test say of phi.
        pairs: Those measured.
    """

    expected: PairNoise
    pairs: list[Pair] = field(default_factory=list)

    @property
    def interval(self) -> Interval:
        """The speed-up with its interval of CI_LEVEL; needs MIN_PAIRS pairs."""
        return self._interval(error_of(len(self.pairs)))

    @property
    def is_shown(self) -> bool:
        """Whether the challenger is faster: whether the interval lies above zero; needs MIN_PAIRS pairs."""
        return self.interval.is_gain

    @property
    def is_plain(self) -> bool:
        """Whether more pairs would not change the answer."""
        if len(self.pairs) < MIN_PAIRS:
            return False
        is_hopeless = len(self.pairs) >= FUTILITY_PAIRS and self.interval.high < 0
        return is_hopeless or self._interval(EARLY_ERROR).is_gain

    def _interval(self, error: float) -> Interval:
        """Return the interval with so much beyond each end."""
        return speedup_interval(self.pairs, self.expected, 1.0 - 2.0 * error)


def speedup_interval(
    pairs: Sequence[Pair], expected: PairNoise | None = None, confidence: float = CI_LEVEL
) -> Interval:
    """Return exp(mean d) - 1 with a two-sided interval of Student's t over the pairs, each weighed by its precision.

    Args:
        pairs: At least MIN_PAIRS, of step times and variances above zero.
        expected: What the samples before the test say of phi; None: the pairs alone count.
        confidence: Level of the interval.
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
