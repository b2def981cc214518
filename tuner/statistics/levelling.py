# SPDX-License-Identifier: Apache-2.0
"""Levelling: a run's samples relative to the baseline windows beside them, as if the machine had not drifted."""

import math
from collections.abc import Sequence
from statistics import fmean

from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import Phase, Sample
from ringtune.tuner.space.config import Config

from .machine_level import Shift, machine_shifts

UNCOUNTED = (Phase.WARMUP, Phase.WATCH)
"""Phases whose windows are no evidence of a config: the job warms up, or trains on."""


def levelled(samples: Sequence[Sample], baseline: Config) -> list[Sample]:
    """Return samples in step times of the machine as it was at the newest baseline window; unchanged without drift.

    Args:
        samples: Samples of one run in the order of measurement.
        baseline: Config that shows the machine's speed.
    """
    shifts = shifts_of(samples, baseline)
    if shifts is None:
        return list(samples)
    return [
        sample.scaled(math.exp(-shift.level), shift.variance) if sample.valid else sample
        for sample, shift in zip(samples, shifts, strict=True)
    ]


def shifts_of(samples: Sequence[Sample], baseline: Config) -> list[Shift] | None:
    """Return the drift of the machine at each sample of a run; None if none is significant."""
    windows = [
        (position, sample)
        for position, sample in enumerate(samples)
        if sample.valid and sample.config == baseline and sample.phase not in UNCOUNTED
    ]
    if not windows:
        return None
    least = POLICY.window_std**2 + fmean(sample.log_variance for _, sample in windows)
    return machine_shifts([(at, math.log(sample.typical_ms)) for at, sample in windows], len(samples), least)
