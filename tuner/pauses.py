# SPDX-License-Identifier: Apache-2.0
"""Pauses: gaps between steps that are far above a usual step, as of an evaluation or a checkpoint.

A pause voids the window that it falls into, whatever the target. The engine implements the same rule in C++
(`runtime_tuner/window_builder.cpp`); a test compares the two.
"""

from collections.abc import Collection
from statistics import median

PAUSE_MEDIANS = 5.0  # length of a gap above which it is a pause, in medians of recent steps
PAUSE_MIN_MS = 1000.0  # longest gap that is never a pause, milliseconds
RECENT_STEPS = 64  # maximum number of steps behind the median
MIN_RECENT_STEPS = 5  # minimum number of steps behind the median; fewer do not tell the usual step


def is_pause(gap_ms: float, recent_ms: Collection[float]) -> bool:
    """Return whether a gap between the ends of two steps is a pause.

    Args:
        gap_ms: The gap, milliseconds.
        recent_ms: Durations of the steps before it that were no pauses, milliseconds.
    """
    return len(recent_ms) >= MIN_RECENT_STEPS and gap_ms > longest_step_ms(median(recent_ms))


def longest_step_ms(median_ms: float) -> float:
    """Return the longest gap that is no pause, milliseconds, if the median of recent steps is `median_ms`."""
    return max(PAUSE_MEDIANS * median_ms, PAUSE_MIN_MS)
