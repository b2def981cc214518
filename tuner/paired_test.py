# SPDX-License-Identifier: Apache-2.0
"""The paired sequential test: whether a challenger's steps are shorter than the baseline's, from interleaved pairs.

| symbol | meaning |
|---|---|
| d | ln(typical default step / typical challenger step) of one pair; above zero where the challenger is faster |
| n | number of pairs |
| s^2 | variance of d: of the pairs, and while they are few, of what the samples before them say |

The test looks after every pair and ends early where the answer is plain: for the challenger only by a bound so far out
that many looks do not add up (Haybittle 1971, "Repeated assessment of results in clinical trials of cancer treatment"),
so that the last look has the error rate of a single one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean, variance

from .sample import Trial
from .student_t import student_t_quantile

CONFIDENCE = 0.95
"""Of the two-sided interval that is reported."""
LAST_ERROR, FEWEST_ERROR, EARLY_ERROR = 0.05, 0.025, 0.001
"""Of challengers that gain nothing, what share the last look adopts; that if there are but MIN_PAIRS; a look before it.

One-sided, so that the lower bound of the interval that is reported may be a little below zero where the challenger is
adopted. A challenger that gains nothing costs nothing, one that gains and is not adopted costs its gain, and of those
that lose far fewer pass. So few pairs rest mostly on what was known of the noise before them: where that was too
little, their errors double.
"""
FUTILITY_PAIRS = 4
"""From so many pairs on, the test ends when even the upper bound is below zero."""
MIN_PAIRS = 2
"""An interval needs two pairs."""
LEAST_WEIGHT, USUAL_WEIGHT, MOST_WEIGHT = 2, 6, 12
"""What the samples before the test say of the noise counts as much as so many pairs.

The least where too few windows were repeated to say how much windows differ: WINDOW_STD is a guess then. Else two more
than there are repeats, the usual at most; more, up to the most, where it rests on the scatter of steps, of which there
are many.
"""
SPEAKING_PAIRS = 8
"""From so many on the pairs speak alone."""
MAD_EFFICIENCY = 0.37
"""Of n normal numbers a MAD tells the standard deviation as well as so many n do by their mean square."""
MIN_REPEATS = 2
"""So many windows beside each config's first say how much windows differ."""
WINDOW_STD = 0.008
"""By how much two windows of one config differ beyond what the scatter of their steps explains, as ln(step time)."""

Pair = tuple[float, float]
"""Typical step times of baseline and challenger, milliseconds."""


@dataclass(frozen=True)
class Interval:
    """A speed-up as a fraction, with a two-sided interval."""

    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class PairNoise:
    """What the samples before the test say of s^2.

    Attributes:
        variance: What s^2 should be.
        weight: As how many pairs it counts beside two.
    """

    variance: float
    weight: float = USUAL_WEIGHT

    def weight_beside(self, pairs: int) -> float:
        """Return as how many pairs it counts beside so many: the less, the more there are."""
        of_each = max(self.weight / (SPEAKING_PAIRS - MIN_PAIRS), 1.0)
        return max(self.weight - max(pairs - MIN_PAIRS, 0) * of_each, 0.0)


@dataclass
class PairedTest:
    """Pairs as they come, and what they say.

    Attributes:
        expected: What the samples before the test say of s^2.
        pairs: Those measured.
    """

    expected: PairNoise
    pairs: list[Pair] = field(default_factory=list)

    @property
    def interval(self) -> Interval:
        """The speed-up with its 95 % interval; needs MIN_PAIRS pairs."""
        return speedup_interval(self.pairs, self.expected)

    @property
    def is_shown(self) -> bool:
        """Whether the challenger is faster, at the last look's error rate; needs MIN_PAIRS pairs."""
        return self._is_faster(LAST_ERROR if len(self.pairs) > MIN_PAIRS else FEWEST_ERROR)

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
    """Return exp(mean d) - 1 with a two-sided interval of Student's t over the pairs.

    Args:
        pairs: At least MIN_PAIRS, of step times above zero.
        expected: What the samples before the test say of s^2; None: the pairs alone count.
        confidence: Of the interval.
    """
    d = [math.log(baseline / challenger) for baseline, challenger in pairs]
    freedom: float = len(d) - 1
    squares = freedom * variance(d)
    if expected is not None:
        weight = expected.weight_beside(len(d))
        freedom += weight
        squares += weight * expected.variance
    margin = student_t_quantile(freedom, 0.5 + confidence / 2) * math.sqrt(squares / freedom / len(d))
    mean = fmean(d)
    return Interval(math.expm1(mean), math.expm1(mean - margin), math.expm1(mean + margin))


def expected_pair_noise(trials: Sequence[Trial], window_steps: int) -> PairNoise:
    """Return what samples say of s^2: twice the variance of a window's ln(typical step).

    It is the larger of what the scatter of the steps and WINDOW_STD let expect, and of what windows of the same config
    differ by, which a drift of the machine makes larger than that of pairs. The first is a sum of two variances, one
    known from many steps, the other only not refuted by repeated windows: as how many degrees of freedom that counts
    says Satterthwaite 1946, "An approximate distribution of estimates of variance components".

    Args:
        trials: The baseline first; at least one sample is valid.
        window_steps: Of each of a pair's windows: the fewer, the more what is typical of it scatters.
    """
    samples = [sample for trial in trials for sample in trial.samples if sample.valid]
    scatter = fmean(sample.log_variance * sample.steps / window_steps for sample in samples)
    expected = scatter + WINDOW_STD**2
    between, repeats = _between_windows(trials)
    if repeats < MIN_REPEATS:
        return PairNoise(2.0 * expected, LEAST_WEIGHT)
    weight = min(repeats + 2, USUAL_WEIGHT)
    if between > expected:
        return PairNoise(2.0 * between, weight)
    steps = MAD_EFFICIENCY * sum(sample.steps for sample in samples)
    freedom = expected**2 / (scatter**2 / steps + WINDOW_STD**4 / repeats)
    return PairNoise(2.0 * expected, min(max(freedom, weight), MOST_WEIGHT))


def _between_windows(trials: Sequence[Trial]) -> tuple[float, int]:
    """Return the variance of ln(typical step) between windows of the same config, and its degrees of freedom."""
    repeated = [log_ms for log_ms in (trial.log_step_ms for trial in trials) if len(log_ms) > 1]
    repeats = sum(len(log_ms) - 1 for log_ms in repeated)
    squares = sum((len(log_ms) - 1) * variance(log_ms) for log_ms in repeated)
    return squares / max(repeats, 1), repeats
