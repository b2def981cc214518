# SPDX-License-Identifier: Apache-2.0
"""The paired sequential test: whether a challenger's steps are shorter than the baseline's, from interleaved pairs.

| symbol | meaning |
|---|---|
| d | ln(typical baseline step / typical challenger step) of one pair; above zero where the challenger is faster |
| n | number of pairs |
| s0^2 | variance of d that the noise model expects, with nu degrees of freedom (`statistics.noise`) |
| s^2 | (nu s0^2 + sum of (d - mean d)^2) / (nu + n - 1) |

The mean of d is tested by Student's t with nu + n - 1 degrees of freedom. The interval that is reported decides: the
challenger is adopted where its lower end, the bound of a one-sided test at 5 %, lies above zero.

The test looks after every pair and ends early where the answer is plain: for the challenger only by a bound so far out
that many looks do not add up (Haybittle 1971, "Repeated assessment of results in clinical trials of cancer treatment"),
so that the last look has the error rate of a single one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from ringtune.tuner.policy_numbers import POLICY, Policy

from .student_t import student_t_quantile

LEAST_PAIRS = 2
"""Pairs that a decision rests on at least: one has no variance."""
ERROR = 0.05
"""Share of challengers that gain nothing which the test adopts, one-sided.

A challenger that gains nothing costs nothing where it is adopted, one that gains costs its gain where it is not, and of
those that lose far fewer pass: a stricter level would cost more than it saves.
"""
CI_LEVEL = 1.0 - 2.0 * ERROR
"""Level of the two-sided interval that is reported; its lower end is the test's bound."""


class Pair(NamedTuple):
    """Typical step times of two neighbouring windows, milliseconds."""

    baseline_ms: float
    challenger_ms: float

    @property
    def log_ratio(self) -> float:
        """Return ln(baseline / challenger)."""
        return math.log(self.baseline_ms / self.challenger_ms)


class Expected(NamedTuple):
    """Variance of d that is expected before the first pair, and the degrees of freedom that it counts as."""

    variance: float
    weight: float


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
    """Pairs in the order of their measurement, and the answer that they give.

    Attributes:
        expected: Noise expected of them.
        policy: The numbers.
        pairs: Those measured.
    """

    expected: Expected
    policy: Policy = POLICY
    pairs: list[Pair] = field(default_factory=list)

    @property
    def is_decidable(self) -> bool:
        """Whether there are enough pairs for a decision."""
        return len(self.pairs) >= LEAST_PAIRS

    @property
    def interval(self) -> Interval:
        """The speed-up with its interval of CI_LEVEL; needs one pair."""
        return speedup_interval(self.pairs, self.expected)

    @property
    def is_shown(self) -> bool:
        """Whether the challenger is faster: whether the interval lies above zero."""
        return self.is_decidable and self.interval.is_gain

    @property
    def is_plain(self) -> bool:
        """Whether more pairs would not change the answer."""
        if not self.is_decidable:
            return False
        is_hopeless = len(self.pairs) >= self.policy.futility_pairs and self.interval.high < 0
        return is_hopeless or speedup_interval(self.pairs, self.expected, 1.0 - 2.0 * self.policy.early_error).is_gain


def speedup_interval(pairs: Sequence[Pair], expected: Expected | None = None, confidence: float = CI_LEVEL) -> Interval:
    """Return exp(mean d) - 1 with a two-sided interval of Student's t over the pairs.

    Args:
        pairs: At least two, or one beside an expected variance; step times above zero.
        expected: Noise expected of them; None: the pairs alone count.
        confidence: Level of the interval.
    """
    d = [pair.log_ratio for pair in pairs]
    mean = fmean(d)
    freedom: float = len(d) - 1
    squares = sum((each - mean) ** 2 for each in d)
    if expected is not None:
        freedom += expected.weight
        squares += expected.weight * expected.variance
    margin = student_t_quantile(freedom, 0.5 + confidence / 2) * math.sqrt(squares / freedom / len(d))
    return Interval(math.expm1(mean), math.expm1(mean - margin), math.expm1(mean + margin))
