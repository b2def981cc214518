# SPDX-License-Identifier: Apache-2.0
"""What a search may cost: how steps are shared between search and adoption test, and its share of the job's time.

The test needs the more pairs the smaller the gain is that it has to show. The search leaves it those of a large gain,
or its share of the budget where that is more; whether it should leave more still is a matter of what it finds
(`adoption_plan`).
"""

import math
from dataclasses import dataclass

from ringtune.tuner.statistics.pair_noise import MIN_PAIRS, PairNoise
from ringtune.tuner.statistics.paired_test import error_of
from ringtune.tuner.statistics.student_t import student_t_quantile

from .measuring import SETTLE_STEPS

SPARE_SHARE = 1 / 8
"""A pause of the job voids a pair, and without another the best config would be dropped for want of a test; so one is
kept in reserve where it takes no more of the budget than this."""
TEST_SHARE = 0.2
"""Of the budget, that is the test's at least: steps may become noisier than they were so far, and weighed by what is
expected of them, the search would leave the test of a large budget as little as that of a small one.
"""
SPARE_STANDARD_ERRORS = 1.3
"""By so many standard errors a gain should be more than what is just shown, so that luck rarely decides."""
MOST_PAIRS = 100
"""More are never planned for."""

EXPLORATION_GRACE_S = 60.0
EXPLORATION_SHARE = 0.03
"""Of the job's time, that what was tried may cost after the first minute; nothing is tried that might make it more."""


@dataclass
class ExplorationAccount:
    """What all searches of a job have cost together, of the time since the first began.

    Attributes:
        began_s: When the first began, on the run's clock, seconds.
        spent_s: What the searches that are over have cost, seconds; what one gained pays for no other.
    """

    began_s: float
    spent_s: float = 0.0

    def is_overdrawn(self, now_s: float, cost_s: float, risk_s: float = 0.0) -> bool:
        """Tell whether what is tried next could cost too much.

        Args:
            now_s: On the run's clock, seconds.
            cost_s: Of the search that goes on, seconds; below zero where it has gained on the whole.
            risk_s: What is tried next may cost, seconds.
        """
        elapsed_s = now_s - self.began_s
        if elapsed_s <= EXPLORATION_GRACE_S:
            return False
        return self.spent_s + cost_s + risk_s > EXPLORATION_SHARE * elapsed_s

    def close_search(self, cost_s: float) -> None:
        """Add what a search has cost in all."""
        self.spent_s += max(cost_s, 0.0)


def pairs_needed(gain: float, noise: PairNoise) -> int:
    """Return how many pairs should put a gain's reported interval above zero, MOST_PAIRS at most.

    Args:
        gain: Expected, as ln(baseline / challenger), above zero.
        noise: Of ln(baseline / challenger) of a pair.
    """
    for pairs in range(MIN_PAIRS, MOST_PAIRS):
        freedom = pairs - 1 + noise.weight_beside(pairs)
        errors = student_t_quantile(freedom, 1.0 - error_of(pairs)) + SPARE_STANDARD_ERRORS
        if gain >= errors * math.sqrt(noise.variance / pairs):
            return pairs
    return MOST_PAIRS


def adoption_steps(pairs: int, window_steps: int) -> int:
    """Return what pairs take of the budget; neighbouring pairs share a config, and do not switch."""
    return pairs * (2 * window_steps + SETTLE_STEPS) + SETTLE_STEPS


def reserved_steps(max_steps: float, window_steps: int, most_pairs: int) -> int:
    """Return what the search leaves for the adoption test at least.

    That is the fewest pairs, and a spare one where it fits; or as many as fit into the test's share of the budget.

    Args:
        max_steps: The budget.
        window_steps: Of a window of the test.
        most_pairs: The test takes no more.
    """
    spare = int(adoption_steps(1, window_steps) <= SPARE_SHARE * max_steps)
    pairs = max(MIN_PAIRS + spare, pairs_within(TEST_SHARE * max_steps, window_steps, most_pairs))
    return adoption_steps(pairs, window_steps)


def pairs_within(steps: float, window_steps: int, most_pairs: int) -> int:
    """Return how many pairs fit into so many steps, which may be infinite; `most_pairs` at most."""
    if steps >= adoption_steps(most_pairs, window_steps):
        return most_pairs
    return max(int((steps - SETTLE_STEPS) // (2 * window_steps + SETTLE_STEPS)), 0)
