# SPDX-License-Identifier: Apache-2.0
"""Interval of a speed-up that no paired test has shown: it contains the drift between the windows of two configs.

Windows of a paired test are neighbours, so that drift cancels. Windows of a search lie minutes apart, and a machine
that others use moves meanwhile. Three baseline windows that agree by chance do not show how far.

| symbol | meaning |
|---|---|
| m, n | numbers of windows of the config and of the baseline |
| d^2 | variance of the machine's ln(speed) between two windows: that of the baseline's windows, at least d0^2 |
| d0 | its prior standard deviation, `DRIFT_STD`: baseline windows that are neighbours do not show less drift |

The interval is that of Student's t with n degrees of freedom; its variance is that of the gain plus d^2 (1/m + 1/n).
"""

import math
from collections.abc import Sequence
from statistics import variance
from typing import NamedTuple

from .paired_test import CI_LEVEL, Interval
from .student_t import student_t_quantile

DRIFT_STD = 0.05
"""Prior standard deviation of a machine's ln(speed) between two windows: baselines of two runs differ by as much."""
LEAST_WINDOWS = 2
"""Least number of a config's windows for an interval: one alone owes its place to the noise (winner's curse)."""
MOST_LOG_GAIN = 700.0
"""Upper bound of ln(baseline / config), so that a damaged log's interval fits into a float."""


class WindowGain(NamedTuple):
    """Gain of a config over the baseline, ln(baseline / config), as its windows show it.

    Attributes:
        mean: Its mean.
        variance: Its variance, without drift.
        windows: Number of valid windows of the config.
    """

    mean: float
    variance: float
    windows: int


def untested_interval(gain: WindowGain, baseline_log_ms: Sequence[float]) -> Interval | None:
    """Return the interval of an untested speed-up at level CI_LEVEL; None from too few windows.

    Args:
        gain: The gain.
        baseline_log_ms: ln(step time) of the baseline's windows.
    """
    if gain.windows < LEAST_WINDOWS or not baseline_log_ms:
        return None
    count = len(baseline_log_ms)
    drift = max(DRIFT_STD**2, variance(baseline_log_ms) if count > 1 else 0.0)
    std = math.sqrt(gain.variance + drift * (1 / gain.windows + 1 / count))
    margin = student_t_quantile(count, 0.5 + CI_LEVEL / 2) * std
    return Interval(*(math.expm1(min(gain.mean + shift, MOST_LOG_GAIN)) for shift in (0.0, -margin, margin)))
