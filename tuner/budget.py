# SPDX-License-Identifier: Apache-2.0
"""How a budget of steps is shared between the search and the adoption test.

The test needs the more pairs the smaller the gain is that it has to show, so that what is kept for it follows from what
is expected of the best config known: a large gain leaves nearly all steps to the search.
"""

import math

from .measuring import SETTLE_STEPS
from .paired_test import MIN_PAIRS

ADOPTION_SHARE = 0.4
"""Of the budget, that the adoption test is given at most."""
STANDARD_ERRORS = 3.3
"""By so many standard errors a gain should be above zero: 1.96 to be shown, 1.3 more so that luck rarely decides."""


def pairs_needed(gain: float, pair_variance: float) -> int:
    """Return how many pairs should show a gain.

    Args:
        gain: Expected, as ln(baseline / challenger), above zero.
        pair_variance: Of ln(baseline / challenger) of a pair.
    """
    return max(math.ceil(pair_variance * (STANDARD_ERRORS / gain) ** 2), MIN_PAIRS)


def adoption_steps(pairs: int, window_steps: int) -> int:
    """Return what pairs take of the budget; neighbouring pairs share a config, and do not switch."""
    return pairs * (2 * window_steps + SETTLE_STEPS) + SETTLE_STEPS


def reserved_steps(max_steps: int, gain: float | None, pair_variance: float, window_steps: int) -> float:
    """Return what the search leaves for the adoption test.

    Args:
        max_steps: The budget.
        gain: Expected of the best config known, as ln(baseline / challenger); None where it is not worth a test.
        pair_variance: Of ln(baseline / challenger) of a pair.
        window_steps: Of a window of the test.
    """
    least = adoption_steps(MIN_PAIRS, window_steps)
    if gain is None:
        return least
    return max(min(adoption_steps(pairs_needed(gain, pair_variance), window_steps), ADOPTION_SHARE * max_steps), least)
