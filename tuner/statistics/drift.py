# SPDX-License-Identifier: Apache-2.0
"""Whether step times have moved lastingly: a two-sided cumulative sum (CUSUM) over windows, against a reference.

| symbol | meaning |
|---|---|
| y | ln(median step time) of a window |
| m, s | median and standard deviation of y over the reference, the first windows |
| k | allowance: a move smaller than this is never noticed |
| h | limit: the sum of what y - m exceeds k by, at which the move is said to last |

What counts of one window is bounded, so that LASTING_WINDOWS are needed at least: an outlier is no drift. Where y is
normal, h follows from the stated rate of false alarms (Siegmund 1985, "Sequential Analysis", eq. 2.57: the mean time
to a false alarm of a one-sided sum).
"""

import math
from statistics import median

from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import MAD_TO_STD

REFERENCE_WINDOWS = 20
ALLOWANCE = 0.03
"""As ln(step time): half of a drift that is worth a search."""
LEAST_ALLOWANCE_STDS = 0.75
"""The allowance is so many s at least, so that noise, and the error of m, do not add up."""
STD_MARGIN = 1.3
"""s is taken to be so many times what the reference shows: of twenty windows it may be too small."""
FALSE_ALARM_WINDOWS = 10_000
"""One false alarm in so many windows at most."""
LASTING_WINDOWS = 5
BEYOND_NORMAL = 1.166
"""By so many s the sum overshoots its limit: Siegmund's correction."""


class DriftDetector:
    """Takes windows one by one; the first REFERENCE_WINDOWS say what is usual."""

    def __init__(self) -> None:
        """Begin without a reference."""
        self._reference: list[float] = []
        self._middle = 0.0
        self._allowance = 0.0
        self._limit = math.inf
        self._slower = self._faster = 0.0
        self._newest: list[float] = []

    @property
    def has_moved(self) -> bool:
        """Whether step times have moved and have not come back."""
        return max(self._slower, self._faster) >= self._limit

    @property
    def ratio(self) -> float:
        """The newest windows' median step time over the reference's; 1 while there is no reference."""
        return math.exp(median(self._newest) - self._middle) if self._newest else 1.0

    def add(self, median_ms: float) -> None:
        """Take in a window's median step time, milliseconds, above zero."""
        y = math.log(median_ms)
        if len(self._reference) < REFERENCE_WINDOWS:
            self._reference.append(y)
            if len(self._reference) == REFERENCE_WINDOWS:
                self._settle()
            return
        most = self._allowance + self._limit / LASTING_WINDOWS
        moved = min(max(y - self._middle, -most), most)
        self._slower = self._summed(self._slower, moved)
        self._faster = self._summed(self._faster, -moved)
        self._newest = [*self._newest, y][-LASTING_WINDOWS:]

    def _settle(self) -> None:
        self._middle = median(self._reference)
        spread = MAD_TO_STD * median(abs(y - self._middle) for y in self._reference)
        std = STD_MARGIN * max(spread, POLICY.window_std)
        self._allowance = max(ALLOWANCE, LEAST_ALLOWANCE_STDS * std)
        self._limit = cusum_limit(self._allowance / std, 2 * FALSE_ALARM_WINDOWS) * std

    def _summed(self, total: float, moved: float) -> float:
        """Return the sum with a window more; never so large that it could not come back in as many windows."""
        return min(max(total + moved - self._allowance, 0.0), 2 * self._limit)


def cusum_limit(allowance: float, windows: float) -> float:
    """Return the limit at which a one-sided sum of normal numbers gives a false alarm in so many windows on average.

    Args:
        allowance: In standard deviations, above zero.
        windows: Mean time to a false alarm.

    Returns:
        In standard deviations; 0 where the allowance alone does it.
    """
    at = 0.0
    for _ in range(50):  # a contraction: the logarithm's slope is below 1 where the sum is above zero
        at = math.log(2 * allowance**2 * windows + 1 + 2 * allowance * at) / (2 * allowance)
    return max(at - BEYOND_NORMAL, 0.0)
