# SPDX-License-Identifier: Apache-2.0
"""Constants and compute time that reproduce one measured step time."""

import math
from collections.abc import Callable

import numpy as np

from ringtune.tuner.space.config import Config

from .calibration import scaled
from .costs import EngineCosts
from .job import JobShape
from .step import Traffic

LEAST_SHARE = 0.001
"""Smallest share of a step that is compute time."""
SHARE_OF_QUICK_STEPS = 0.3
"""Compute share of a step that is shorter than the communication expected from the constants."""
LEAST_FACTOR = 1e-4
"""Smallest factor on all constants."""
BISECTION_STEPS = 14
"""Number of bisection steps in log space; 14 bring the relative error below 0.1 %."""


def explained(job: JobShape, costs: EngineCosts, config: Config, step_s: float) -> tuple[EngineCosts, float]:
    """Return the constants and the compute time, seconds, that reproduce a measured step.

    The constants stay unchanged unless communication alone would take longer than the step. In that case one factor
    makes machine and links faster in everything.

    Args:
        job: Shape of the job.
        costs: Usual constants of the engine.
        config: Config of the measured step.
        step_s: Step time, seconds.
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
    """Return the largest value in [low, high] for which `is_small` holds, by bisection of its logarithm."""
    low, high = math.log(low), math.log(high)
    for _ in range(BISECTION_STEPS):
        middle = (low + high) / 2
        if is_small(math.exp(middle)):
            low = middle
        else:
            high = middle
    return math.exp(low)
