# SPDX-License-Identifier: Apache-2.0
"""Variance of a window's typical step time, as far as its log shows it."""

import math

from ringtune.tuner.sample import MAD_TO_STD

from .summary import TriedSample

MAX_VARIANCE = 1.0
MEDIAN_VARIANCE = math.pi / 2
"""Variance of the median of many normal numbers over that of their mean; logs of any origin have medians."""


def window_variance(sample: TriedSample) -> float:
    """Return the variance of ln(median step time) from the scatter of the steps and from drift; 0 if unknown."""
    if sample.mad_ms is None or not sample.step_ms or sample.steps < 1:
        return sample.drift_variance
    relative = min(MAD_TO_STD * abs(sample.mad_ms) / sample.step_ms, MAX_VARIANCE)
    return MEDIAN_VARIANCE * relative**2 / sample.steps + sample.drift_variance
