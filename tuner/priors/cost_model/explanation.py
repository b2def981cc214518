# SPDX-License-Identifier: Apache-2.0
"""What a step computes and what communication costs, from how long it took under one config."""

import math
from collections.abc import Callable

import numpy as np

from ringtune.tuner.space.config import Config

from .calibration import scaled
from .costs import EngineCosts
from .job import JobShape
from .step import Traffic

LEAST_SHARE = 0.001
"""Of a step, that is computing."""
SHARE_OF_QUICK_STEPS = 0.3
"""The same, where the constants expect communication alone to take longer than the step did."""
LEAST_FACTOR = 1e-4
"""On all constants."""
HALVINGS = 14
"""Of what is looked for, as ln: to less than a thousandth."""


def explained(job: JobShape, costs: EngineCosts, config: Config, step_s: float) -> tuple[EngineCosts, float]:
    """Return constants with which a step takes as long as it did, and the seconds that it computes.

    The constants stay as they are, unless communication alone would take longer than the step: then machine and links
    are so many times as fast in everything.

    Args:
        job: What is reduced, and where.
        costs: What the engine usually costs.
        config: Under which it was measured.
        step_s: How long the step took, seconds.
    """
    traffic = Traffic.of(job, [config])

    def is_too_short(costs: EngineCosts, compute_s: float) -> bool:
        return bool(traffic.step_s(costs, compute_s)[0] < step_s)

    if is_too_short(costs, LEAST_SHARE * step_s):
        return costs, _largest(LEAST_SHARE * step_s, step_s, lambda compute_s: is_too_short(costs, compute_s))
    compute_s = SHARE_OF_QUICK_STEPS * step_s
    factor = _largest(LEAST_FACTOR, 1.0, lambda factor: is_too_short(_quicker(costs, factor), compute_s))
    return _quicker(costs, factor), compute_s


def _quicker(costs: EngineCosts, factor: float) -> EngineCosts:
    return scaled(costs, np.array([factor, factor, factor, factor, 1.0, 1.0]))


def _largest(low: float, high: float, is_small: Callable[[float], bool]) -> float:
    """Return the largest value between two above zero that is small still, by bisection of its logarithm."""
    low, high = math.log(low), math.log(high)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if is_small(math.exp(middle)):
            low = middle
        else:
            high = middle
    return math.exp(low)
