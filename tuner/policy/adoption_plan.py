# SPDX-License-Identifier: Apache-2.0
"""How the adoption test uses the steps that are left, and what they are worth to it, where steps are counted.

A sample of the search may bring a better challenger, but what it takes leaves fewer pairs to show that the challenger
is better. What is won in the end is the gain of a challenger that is adopted, so that both are weighed in one unit:

    value(steps) = E[gain * P(the pairs that fit into the steps show it)]

over what the gain may be, as the designer has it. The search goes on while the value with what a sample should add to
the gain, and with fewer steps, is no less than the value without.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from ringtune.tuner.sample import Trial
from ringtune.tuner.statistics.pair_noise import MIN_PAIRS, PairNoise, expected_pair_noise
from ringtune.tuner.statistics.paired_test import error_of
from ringtune.tuner.statistics.student_t import student_t_quantile

from .belief import NORMALS, Gain
from .budget import pairs_within

MOST_LENGTHS = 24
"""Lengths of windows that a plan chooses from; with more, neighbours differ by less than what is known of the noise."""
OVERCONFIDENCE = 1.5
"""A model of few samples and nothing else does not know what it has not seen: what it may be off by is so many times
what it says. Were it taken at its word, searches would end too early: on Horovod's tables, without a prior, 3.0 and
2.7 % from the optimum after 200 and 300 steps instead of 2.6 and 2.1 %. With the cost model the gains of simulated jobs
differ from what is expected by as much as it says.
"""


@dataclass(frozen=True)
class AdoptionPlan:
    """A test that fits into so many steps.

    Attributes:
        window_steps: Of each of a pair's windows.
        pairs: How many there is room for.
        noise: Of ln(baseline / challenger) of a pair.
    """

    window_steps: int
    pairs: int
    noise: PairNoise

    def power(self, gain: float) -> float:
        """Return the chance that a gain is shown, as ln(baseline / challenger)."""
        if self.pairs < MIN_PAIRS:
            return 0.0
        freedom = self.pairs - 1 + self.noise.weight_beside(self.pairs)
        standard_error = math.sqrt(self.noise.variance / self.pairs)
        return NormalDist().cdf(gain / standard_error - student_t_quantile(freedom, 1.0 - error_of(self.pairs)))

    def value(self, gain: Gain) -> float:
        """Return what should be won: a gain that may differ by its standard deviation, where it is shown."""
        return fmean(one * self.power(one) for one in gain.mean + gain.std * NORMALS)


def best_plan(
    trials: Sequence[Trial], gain: float, lengths: Sequence[int], steps_left: float, most_pairs: int
) -> AdoptionPlan:
    """Return the test that shows a gain most probably, of more pairs or of longer windows; the shortest of equals.

    Args:
        trials: All so far, the baseline first; at least one sample is valid.
        gain: Expected of the challenger, as ln(baseline / challenger).
        lengths: Steps that a window may have, ascending; where steps are not counted it has the most.
        steps_left: Of the budget; infinite without one.
        most_pairs: Maximum number of pairs.
    """
    tried = lengths[-1:] if math.isinf(steps_left) else lengths[:: math.ceil(len(lengths) / MOST_LENGTHS)]
    plans = [
        AdoptionPlan(steps, pairs_within(steps_left, steps, most_pairs), expected_pair_noise(trials, steps))
        for steps in tried
    ]
    return max(plans, key=lambda plan: plan.power(gain))
