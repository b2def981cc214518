# SPDX-License-Identifier: Apache-2.0
"""Drift detection: a two-sided cumulative sum (CUSUM) of windows against a reference.

| symbol | meaning |
|---|---|
| y | ln(median step time) of a window |
| m, s | median and standard deviation of y over the reference, the first windows |
| k | allowance: a shift smaller than this is never detected |
| h | decision limit of the sum of y - m - k |

One outlier is not a drift: the contribution of a window to the sum is bounded, so that an alarm needs at least
LASTING_WINDOWS windows. For normal y, the rate of false alarms determines h (Siegmund 1985, "Sequential Analysis",
eq. 2.57: the mean time to a false alarm of a one-sided sum).
"""

import math
from statistics import median

from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import MAD_TO_STD

REFERENCE_WINDOWS = 20
"""Number of first windows that form the reference."""
ALLOWANCE = 0.03
"""Smallest allowance k, ln(step time): half of a drift that is worth a search."""
LEAST_ALLOWANCE_STDS = 0.75
"""Smallest allowance as a multiple of s: the sum then accumulates neither noise nor the error of m."""
STD_MARGIN = 1.3
"""Factor on the standard deviation of the reference: an estimate from twenty windows may be too small."""
FALSE_ALARM_WINDOWS = 10_000
"""Mean number of windows between two false alarms, at least."""
LASTING_WINDOWS = 5
"""Least number of shifted windows before an alarm; also the number of newest windows behind `ratio`."""
OVERSHOOT_STDS = 1.166
"""Mean overshoot of the sum over its limit, as a multiple of s: Siegmund's correction."""


class DriftDetector:
    """Two-sided CUSUM detector: compares each window with the first REFERENCE_WINDOWS windows."""

    def __init__(self) -> None:
        """Start without a reference."""
        self._reference: list[float] = []
        self._middle = 0.0
        self._allowance = 0.0
        self._limit = math.inf
        self._slower = self._faster = 0.0
        self._newest: list[float] = []

    @property
    def has_moved(self) -> bool:
        """True if step times have shifted and have not returned to the reference."""
        return max(self._slower, self._faster) >= self._limit

    @property
    def ratio(self) -> float:
        """The median step time of the newest windows over that of the reference; 1 without windows after it."""
        return math.exp(median(self._newest) - self._middle) if self._newest else 1.0

    def add(self, median_ms: float) -> None:
        """Add a window's median step time, milliseconds, above zero."""
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
        """Return the sum after one more window, at most twice the limit, so that it can fall as fast as it rose."""
        return min(max(total + moved - self._allowance, 0.0), 2 * self._limit)


def cusum_limit(allowance: float, windows: float) -> float:
    """Return the limit of a one-sided sum of standard normal numbers for a given mean time to a false alarm.

    Args:
        allowance: Allowance in standard deviations, above zero.
        windows: Mean time to a false alarm, windows.

    Returns:
        Limit in standard deviations; 0 if the allowance alone makes false alarms rare enough.
    """
    at = 0.0
    for _ in range(50):  # fixed-point iteration; a contraction, because the slope is below 1 for positive values
        at = math.log(2 * allowance**2 * windows + 1 + 2 * allowance * at) / (2 * allowance)
    return max(at - OVERSHOOT_STDS, 0.0)
