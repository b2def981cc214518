# SPDX-License-Identifier: Apache-2.0
"""The paired sequential test: compares a challenger with the baseline in interleaved pairs of windows.

| symbol | meaning |
|---|---|
| d | ln(typical baseline step / typical challenger step) of one pair; positive if the challenger is faster |
| n | number of pairs |
| s0^2 | prior variance of d from the noise model, with nu degrees of freedom (`statistics.noise`) |
| s^2 | posterior variance of d: (nu s0^2 + sum of (d - mean d)^2) / (nu + n - 1) |

The test statistic is Student's t with nu + n - 1 degrees of freedom. The reported interval decides: the challenger is
adopted if the lower end, which is the bound of a one-sided test at 5 %, lies above zero.

An interim analysis follows every pair, and the test ends early if more pairs would not change the answer. Early
adoption needs a bound so extreme that repeated looks barely increase the error rate (Haybittle 1971, "Repeated
assessment of results in clinical trials of cancer treatment"). The last look then has the error rate of a single test.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple

from ringtune.tuner.policy_numbers import POLICY, Policy

from .student_t import student_t_quantile

LEAST_PAIRS = 2
"""Least number of pairs for a decision: one pair has no variance."""
ERROR = 0.05
"""Type I error of the one-sided test: probability that it adopts a challenger as fast as the baseline.

Adopting an equally fast challenger costs nothing, rejecting a faster one costs its gain, and a slower one passes far
less often: a stricter level would cost more than it saves.
"""
CI_LEVEL = 1.0 - 2.0 * ERROR
"""Confidence level of the reported two-sided interval; its lower end is the bound of the test."""


class Pair(NamedTuple):
    """Typical step times of two adjacent windows, milliseconds."""

    baseline_ms: float
    challenger_ms: float

    @property
    def log_ratio(self) -> float:
        """Return ln(baseline / challenger)."""
        return math.log(self.baseline_ms / self.challenger_ms)


class NoisePrior(NamedTuple):
    """Prior of the variance of d: the value from the noise model, and its weight in degrees of freedom."""

    variance: float
    weight: float


@dataclass(frozen=True)
class Interval:
    """Speed-up as a fraction, with a two-sided confidence interval."""

    speedup: float
    low: float
    high: float

    @property
    def is_gain(self) -> bool:
        """True if the whole interval lies above zero."""
        return self.low > 0


@dataclass
class PairedTest:
    """The adoption test: collects pairs in the order of their measurement, and decides.

    Attributes:
        noise_prior: Prior of the variance of a pair.
        policy: The policy's numbers.
        pairs: Pairs measured so far.
    """

    noise_prior: NoisePrior
    policy: Policy = POLICY
    pairs: list[Pair] = field(default_factory=list)

    @property
    def is_decidable(self) -> bool:
        """True if there are enough pairs for a decision."""
        return len(self.pairs) >= LEAST_PAIRS

    @property
    def interval(self) -> Interval:
        """The speed-up with its interval at CI_LEVEL; needs at least one pair."""
        return speedup_interval(self.pairs, self.noise_prior)

    @property
    def shows_gain(self) -> bool:
        """True if the challenger is shown to be faster: the whole interval lies above zero."""
        return self.is_decidable and self.interval.is_gain

    @property
    def can_end_early(self) -> bool:
        """True if the test may end early: by futility, or by the early bound for the challenger."""
        if not self.is_decidable:
            return False
        is_hopeless = len(self.pairs) >= self.policy.futility_pairs and self.interval.high < 0
        return (
            is_hopeless or speedup_interval(self.pairs, self.noise_prior, 1.0 - 2.0 * self.policy.early_error).is_gain
        )


def speedup_interval(
    pairs: Sequence[Pair], noise_prior: NoisePrior | None = None, confidence: float = CI_LEVEL
) -> Interval:
    """Return exp(mean d) - 1 with a two-sided Student's t interval.

    Args:
        pairs: At least two pairs, or one with a prior; step times above zero.
        noise_prior: Prior of the variance of a pair; None: the variance comes from the pairs alone.
        confidence: Confidence level of the interval.
    """
    d = [pair.log_ratio for pair in pairs]
    mean = fmean(d)
    freedom: float = len(d) - 1
    squares = sum((each - mean) ** 2 for each in d)
    if noise_prior is not None:
        freedom += noise_prior.weight
        squares += noise_prior.weight * noise_prior.variance
    margin = student_t_quantile(freedom, 0.5 + confidence / 2) * math.sqrt(squares / freedom / len(d))
    return Interval(math.expm1(mean), math.expm1(mean - margin), math.expm1(mean + margin))
