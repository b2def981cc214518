# SPDX-License-Identifier: Apache-2.0
"""The rule by which a window of a bad config is cut, the same for every target.

A window is closed early once the median of at least three steps is over the limit. A single slow step is never enough,
whatever it took; two of three are. The shortest windows of a search have five steps, so that these can be cut as well,
and what a bad config costs is bounded by three of its steps. The engine has the same rule in C++
(`runtime_tuner/window_builder.cpp`); a test compares the two.
"""

from bisect import insort
from collections.abc import Sequence
from statistics import median

LEAST_STEPS = 3  # steps before a window can be cut; of two steps, one slow step would be half


def is_over_limit(step_ms: Sequence[float], limit_ms: float) -> bool:
    """Return whether a window that has more steps to come is cut.

    Args:
        step_ms: The steps measured so far, milliseconds.
        limit_ms: The window's limit, milliseconds; 0 never cuts.
    """
    return limit_ms > 0 and len(step_ms) >= LEAST_STEPS and median(step_ms) > limit_ms


def steps_until_cut(step_ms: Sequence[float], limit_ms: float) -> int:
    """Return after how many steps a window is closed: the whole window's number where it is not cut.

    Args:
        step_ms: All steps that the whole window would have, milliseconds.
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
