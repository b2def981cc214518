# SPDX-License-Identifier: Apache-2.0
"""Levelling of a run's windows: times relative to the baseline windows beside them, so that drift shows no effect.

A verdict rests on neighbouring windows, while medians and the model compare windows that lie minutes apart. Without
this correction a machine that changed its speed between search and test would let a review contradict its verdict.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.statistics.machine_level import Shift, machine_shifts, spread

from .summary import RunReview, TriedSample
from .windows import window_variance


@dataclass(frozen=True)
class Levelled:
    """A run as if its machine had kept the speed of the newest baseline window.

    Attributes:
        run: The run with levelled windows; the run itself without drift.
        spread: Size of the drift that was removed, ln(step time); 0 without drift.
    """

    run: RunReview
    spread: float


def levelled(run: RunReview) -> Levelled:
    """Return the run with levelled windows; a machine without significant drift leaves it as it is."""
    shifts = _shifts(run)
    if shifts is None:
        return Levelled(run, 0.0)
    tried = tuple(_shifted(sample, shift) for sample, shift in zip(run.tried, shifts, strict=True))
    return Levelled(replace(run, tried=tried), spread(shifts))


def _shifts(run: RunReview) -> Sequence[Shift] | None:
    """Return the drift at each window; None if none is significant, or if the log has no baseline."""
    windows = [
        (position, sample)
        for position, sample in enumerate(run.tried)
        if sample.config == run.baseline and sample.is_evidence
    ]
    if not windows:
        return None
    least = POLICY.window_std**2 + fmean(window_variance(sample) for _, sample in windows)
    return machine_shifts([(at, sample.log_time or 0.0) for at, sample in windows], len(run.tried), least)


def _shifted(sample: TriedSample, shift: Shift) -> TriedSample:
    factor = math.exp(-shift.level)
    return replace(
        sample,
        step_ms=_times(sample.step_ms, factor),
        mad_ms=_times(sample.mad_ms, factor),
        mean_ms=_times(sample.mean_ms, factor),
        score_bytes_per_s=_times(sample.score_bytes_per_s, 1.0 / factor),
        expected_score=_times(sample.expected_score, 1.0 / factor),
        drift_variance=shift.variance,
    )


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
