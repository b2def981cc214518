# SPDX-License-Identifier: Apache-2.0
"""Early stopping of a window: the rule that cuts a window of a slow config, the same for every target.

A window is cut once the median of at least three steps is over the limit. One slow step of three never cuts, however
slow; two do. The shortest windows of a search have five steps and can be cut as well, so that a slow config costs as
few as three of its steps. The engine implements the same rule in C++ (`runtime_tuner/window_builder.cpp`); a test
compares the two.
"""

from bisect import insort
from collections.abc import Sequence
from statistics import median

LEAST_STEPS = 3  # steps before a window can be cut; one slow step of two would move the median


def is_over_limit(step_ms: Sequence[float], limit_ms: float) -> bool:
    """Return whether to cut a window that has more steps to come.

    Args:
        step_ms: Durations of the steps measured so far, milliseconds.
        limit_ms: The window's limit, milliseconds; 0 never cuts.
    """
    return limit_ms > 0 and len(step_ms) >= LEAST_STEPS and median(step_ms) > limit_ms


def steps_until_cut(step_ms: Sequence[float], limit_ms: float) -> int:
    """Return the number of steps after which a window is closed; all of them if it is not cut.

    Args:
        step_ms: Durations of all steps of the uncut window, milliseconds.
        limit_ms: The window's limit, milliseconds; 0 never cuts.
    """
    if limit_ms <= 0 or max(step_ms, default=0.0) <= limit_ms:
        return len(step_ms)
    ordered: list[float] = []
    for count, one_ms in enumerate(step_ms, start=1):
        insort(ordered, one_ms)
        if count < len(step_ms) and is_over_limit(ordered, limit_ms):
            return count
    return len(step_ms)
