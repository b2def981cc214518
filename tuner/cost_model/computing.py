# SPDX-License-Identifier: Apache-2.0
"""What a step computes, from how long it took under one config; the constants stay as they are."""

import math

from ringtune.tuner.config import Config

from .costs import EngineCosts
from .job import JobShape
from .step import Traffic

LEAST_SHARE = 0.001
"""Of a step, that is computing."""
HALVINGS = 14
"""Of what may be computed, as ln: to less than a thousandth."""


def computing_s(job: JobShape, costs: EngineCosts, config: Config, step_s: float) -> float:
    """Return the seconds that a step computes, LEAST_SHARE of it at least.

    Args:
        job: What is reduced, and where.
        costs: What the engine costs there.
        config: Under which it was measured.
        step_s: How long the step took, seconds.
    """
    traffic = Traffic.of(job, [config])
    low, high = math.log(LEAST_SHARE * step_s), math.log(step_s)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if traffic.step_s(costs, math.exp(middle))[0] < step_s:
            low = middle
        else:
            high = middle
    return math.exp(low)
