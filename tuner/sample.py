# SPDX-License-Identifier: Apache-2.0
"""Windows, samples and trials: the measurements and their variance. No input makes this module raise."""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from types import MappingProxyType

from .space.config import Config

MAD_TO_STD = 1.4826
"""Standard deviation over median absolute deviation, for normal noise."""
MOST_SPREAD = 1e3
"""Upper bound of a relative MAD. It means that nothing is known, and its square is still finite."""
TYPICAL_VARIANCE = 1.25
"""Variance of the typical step of n steps, in units of the squared robust standard deviation over n.

Simulated with 5 to 100 steps. Normal steps: 1.05 to 1.2, against 1.4 to 1.6 for the median. Steps distributed as
Student's t with three degrees of freedom: 1.4 to 1.6, against 1.3 to 1.4 for the median and 3 for the mean.
"""


class VoidReason(str, Enum):
    """Reason why a window yields no valid sample."""

    PAUSE = "pause"
    TENSOR_SET_CHANGED = "tensor_set_changed"
    MIXED_EPOCHS = "mixed_epochs"
    NO_GRADIENTS = "no_gradients"
    INVALID_SCORE = "invalid_score"
    LAUNCH_FAILED = "launch_failed"
    MEMORY_LIMIT = "memory_limit"


FAILURES = (VoidReason.LAUNCH_FAILED, VoidReason.MEMORY_LIMIT)
"""Reasons that lie in the config: further windows have them as well. Whether to try again is up to the target."""

_WORDS: Mapping[VoidReason, str] = MappingProxyType(
    {
        VoidReason.PAUSE: "a step took many times the usual time",
        VoidReason.TENSOR_SET_CHANGED: "steps had other gradients than those before them",
        VoidReason.MIXED_EPOCHS: "the config changed within a window",
        VoidReason.NO_GRADIENTS: "steps combined no gradient",
        VoidReason.INVALID_SCORE: "a score was not a number above zero",
        VoidReason.LAUNCH_FAILED: "a launch failed",
        VoidReason.MEMORY_LIMIT: "the memory limit was exceeded",
    }
)


class Phase(str, Enum):
    """Phases of a tuning run, in their order."""

    WARMUP = "warmup"
    BASELINE = "baseline"
    SEARCH = "search"
    ADOPTION = "adoption"
    WATCH = "watch"


@dataclass(frozen=True)
class Window:
    """Consecutive steps measured under one config.

    Attributes:
        epoch: The config epoch of the steps.
        step_ms: Duration of each step, milliseconds.
        bytes_per_step: Gradient bytes reduced per step.
        tensor_set: Hash of the multiset of (dtype, shape).
        void_reason: Reason why the window is void, or None.
        was_cut: Whether it was closed early because its steps ran over the limit.
        last_step: Number of the job's step that closed the window; None if the target runs no steps outside windows.
    """

    epoch: int
    step_ms: tuple[float, ...]
    bytes_per_step: int
    tensor_set: int
    void_reason: VoidReason | None = None
    was_cut: bool = False
    last_step: int | None = None


@dataclass(frozen=True)
class StepTimes:
    """Location and spread of a window's step times, milliseconds; `mad` is the median absolute deviation."""

    median: float
    mad: float
    mean: float

    @classmethod
    def of(cls, step_ms: Sequence[float]) -> "StepTimes":
        """Summarise step times; all NaN if there are none, or if one is not finite."""
        if not step_ms or not all(math.isfinite(x) for x in step_ms):
            return cls(math.nan, math.nan, math.nan)
        median = statistics.median(step_ms)
        mad = statistics.median(abs(x - median) for x in step_ms)
        return cls(median, mad, sum(step_ms) / len(step_ms))

    @property
    def is_usable(self) -> bool:
        """True if the times are finite and above zero, so that their logarithm exists."""
        return math.isfinite(self.mean) and math.isfinite(self.mad) and self.median > 0 and self.mean > 0


@dataclass(frozen=True)
class Sample:
    """Measurement of one window.

    Attributes:
        trial_id: Number of the trial that the sample belongs to.
        config: Config that was measured.
        phase: Phase of the run.
        epoch: The config epoch.
        score_bytes_per_s: Gradient bytes per step over the mean step time; NaN if that does not exist.
        step_times: Summary of the step times.
        steps: Number of steps measured.
        reason: Reason why the sample is invalid, or None.
    """

    trial_id: int
    config: Config
    phase: Phase
    epoch: int
    score_bytes_per_s: float
    step_times: StepTimes
    steps: int
    reason: VoidReason | None = None

    @property
    def valid(self) -> bool:
        """True if the sample may be used."""
        return self.reason is None

    @property
    def typical_ms(self) -> float:
        """Robust estimate of the config's step time, milliseconds: the median, moved towards the mean.

        The move is at most one standard error. The estimate is nearly as precise as the mean if steps scatter evenly,
        and robust against single late steps (a one-step M-estimator: Huber 1964, "Robust estimation of a location
        parameter").
        """
        times = self.step_times
        margin = MAD_TO_STD * times.mad / math.sqrt(max(self.steps, 1))
        return times.median + min(max(times.mean - times.median, -margin), margin)

    @property
    def step_variance(self) -> float:
        """Variance of ln(typical step time) times the number of steps, as if steps were independent."""
        relative = min(MAD_TO_STD * self.step_times.mad / self.step_times.median, MOST_SPREAD)
        return TYPICAL_VARIANCE * relative**2

    @property
    def log_variance(self) -> float:
        """Variance of ln(typical step time) that the scatter of this sample's steps explains."""
        return self.step_variance / max(self.steps, 1)

    def scaled(self, factor: float, variance: float = 0.0) -> "Sample":
        """Return the sample with all times multiplied by a factor, and more variance of ln(typical step time).

        Args:
            factor: The factor, above zero.
            variance: Further variance, from the uncertainty of the factor.
        """
        times = self.step_times
        scaled = StepTimes(times.median * factor, times.mad * factor, times.mean * factor)
        sample = replace(self, step_times=scaled, score_bytes_per_s=self.score_bytes_per_s / factor)
        if variance <= 0.0:
            return sample
        typical_ms = sample.typical_ms
        mad = math.sqrt((self.log_variance + variance) * max(self.steps, 1) / TYPICAL_VARIANCE) / MAD_TO_STD
        score = sample.score_bytes_per_s * scaled.mean / typical_ms  # the bytes per step stay
        return replace(sample, step_times=StepTimes(typical_ms, mad * typical_ms, typical_ms), score_bytes_per_s=score)

    @classmethod
    def from_window(cls, window: Window, *, trial_id: int, config: Config, phase: Phase) -> "Sample":
        """Return a window's sample; a score or step time that is not finite and positive makes it invalid."""
        times = StepTimes.of(window.step_ms)
        try:
            score = window.bytes_per_step / (times.mean * 1e-3)
        except (ZeroDivisionError, OverflowError):
            score = math.nan
        reason = window.void_reason
        if reason is None and not (times.is_usable and min(window.step_ms) > 0 and math.isfinite(score) and score > 0):
            reason = VoidReason.INVALID_SCORE
        return cls(trial_id, config, phase, window.epoch, score, times, len(window.step_ms), reason)


@dataclass(frozen=True)
class Trial:
    """Config with its samples, valid and invalid."""

    trial_id: int
    config: Config
    samples: tuple[Sample, ...] = ()

    @property
    def log_step_ms(self) -> tuple[float, ...]:
        """Natural logarithm of the typical step time (ms) of each valid sample, the quantity that designers model."""
        return tuple(math.log(sample.typical_ms) for sample in self.samples if sample.valid)

    @property
    def is_conclusive(self) -> bool:
        """True if at least one sample is valid."""
        return any(sample.valid for sample in self.samples)

    @property
    def has_failed(self) -> bool:
        """True if the config cannot be measured: no sample is valid, and one is void for a reason in `FAILURES`."""
        return not self.is_conclusive and any(sample.reason in FAILURES for sample in self.samples)


def reason_of(sample: Sample) -> str:
    """Return the reason why a window is void, for people."""
    if sample.reason is None:
        return "unknown"
    return f"{_WORDS[sample.reason]} ({sample.reason.value})"
