# SPDX-License-Identifier: Apache-2.0
"""Windows, samples and trials: what is measured, and what a measurement is worth. No input here raises."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from .space.config import Config

MAD_TO_STD = 1.4826
"""Standard deviation over median absolute deviation, for normal noise."""
MOST_SPREAD = 1e3
"""A MAD of so many medians, or more, says that nothing is known; its square is still a number."""
TYPICAL_VARIANCE = 1.25
"""Of a typical step, in squared robust deviations over the steps.

1.05 to 1.2 where they are normal, and 1.4 to 1.6 that of a median; 1.4 to 1.6 where they are distributed as Student's t
with three degrees of freedom, and 1.3 to 1.4 that of a median, but 3 that of a mean (5 to 100 steps, simulated).
"""


class VoidReason(str, Enum):
    """Why a window yields no valid sample."""

    PAUSE = "pause"
    TENSOR_SET_CHANGED = "tensor_set_changed"
    MIXED_EPOCHS = "mixed_epochs"
    NO_GRADIENTS = "no_gradients"
    INVALID_SCORE = "invalid_score"
    LAUNCH_FAILED = "launch_failed"


class Phase(str, Enum):
    """The phases of a tuning run, in their order."""

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
        void_reason: Why the window is void, or None.
        was_cut: Whether it was closed early because its steps ran over the limit.
        last_step: Number of the job's step that closed it; None from a target whose steps are all in windows.
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
    """Location and spread of a sample's step times, milliseconds; `mad` is the median absolute deviation."""

    median: float
    mad: float
    mean: float

    @classmethod
    def of(cls, step_ms: Sequence[float]) -> "StepTimes":
        """Summarise step times; all NaN when there is none or one is not finite."""
        if not step_ms or not all(math.isfinite(x) for x in step_ms):
            return cls(math.nan, math.nan, math.nan)
        median = statistics.median(step_ms)
        mad = statistics.median(abs(x - median) for x in step_ms)
        return cls(median, mad, sum(step_ms) / len(step_ms))

    @property
    def is_usable(self) -> bool:
        """Whether the times are finite and above zero, so that their logarithm exists."""
        return math.isfinite(self.mean) and math.isfinite(self.mad) and self.median > 0 and self.mean > 0


@dataclass(frozen=True)
class Sample:
    """What a window yields.

    Attributes:
        trial_id: The trial it belongs to.
        config: The config it was measured under.
        phase: The phase of the run.
        epoch: The config epoch.
        score_bytes_per_s: Gradient bytes per step over the mean step time; NaN where that does not exist.
        step_times: Summary of the step times.
        steps: Number of steps measured.
        reason: Why the sample is invalid, or None.
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
        """Whether the sample may be used."""
        return self.reason is None

    @property
    def typical_ms(self) -> float:
        """The step time that the window tells of its config, milliseconds: the median, moved towards the mean.

        It is moved by one standard error at most. So it is as sure as the mean where steps scatter evenly, and where
        single ones are late they count for little (a one-step M-estimator: Huber 1964, "Robust estimation of a
        location parameter").
        """
        times = self.step_times
        margin = MAD_TO_STD * times.mad / math.sqrt(max(self.steps, 1))
        return times.median + min(max(times.mean - times.median, -margin), margin)

    @property
    def step_variance(self) -> float:
        """What one step adds to the variance of ln(typical step time), as if steps were independent."""
        relative = min(MAD_TO_STD * self.step_times.mad / self.step_times.median, MOST_SPREAD)
        return TYPICAL_VARIANCE * relative**2

    @property
    def log_variance(self) -> float:
        """The variance of ln(typical step time) that the scatter of the steps explains, by this sample alone."""
        return self.step_variance / max(self.steps, 1)

    @classmethod
    def from_window(cls, window: Window, *, trial_id: int, config: Config, phase: Phase) -> "Sample":
        """Judge a window; a score or step time that is not finite and positive gives an invalid sample."""
        times = StepTimes.of(window.step_ms)
        score = _score(window.bytes_per_step, times)
        reason = window.void_reason
        if reason is None and not (times.is_usable and min(window.step_ms) > 0 and math.isfinite(score) and score > 0):
            reason = VoidReason.INVALID_SCORE
        return cls(trial_id, config, phase, window.epoch, score, times, len(window.step_ms), reason)


def _score(bytes_per_step: float, times: StepTimes) -> float:
    try:
        return bytes_per_step / (times.mean * 1e-3)
    except (ZeroDivisionError, OverflowError):
        return math.nan


@dataclass(frozen=True)
class Trial:
    """A config with its samples, valid and invalid."""

    trial_id: int
    config: Config
    samples: tuple[Sample, ...] = ()

    @property
    def log_step_ms(self) -> tuple[float, ...]:
        """The natural logarithm of the typical step time (ms) of each valid sample: what designers model."""
        return tuple(math.log(sample.typical_ms) for sample in self.samples if sample.valid)

    @property
    def is_conclusive(self) -> bool:
        """Whether at least one sample is valid."""
        return any(sample.valid for sample in self.samples)


def reason_of(sample: Sample) -> str:
    """Say why a window is void."""
    return "unknown" if sample.reason is None else sample.reason.value
