# SPDX-License-Identifier: Apache-2.0
"""Pace: steps and seconds of the job per measured step, including the time between windows."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ringtune.tuner.policy_numbers import POLICY, Policy


@dataclass(frozen=True)
class _Stretch:
    """Period from the end of one window to the end of the next.

    Attributes:
        seconds: Duration, seconds.
        job_steps: Steps that the job took.
        steps: Steps among them that the run measured or skipped to settle.
        at_once: Number of windows that were measured at the same time.
    """

    seconds: float
    job_steps: int
    steps: int
    at_once: int


class Pace:
    """Pace: seconds and steps of the job per step that a run measures or skips to settle.

    A job trains on between two windows. If the target reports the number of the job's step that closed a window, all
    steps count; otherwise only those of the windows.
    """

    def __init__(self, clock: Callable[[], float], policy: Policy = POLICY) -> None:
        """Start the clock, which is monotonic and in seconds."""
        self._clock = clock
        self._stretches: deque[_Stretch] = deque(maxlen=policy.pace_windows)
        self._noted_s = clock()
        self._noted_steps = 0
        self._last_step: int | None = None

    def note(self, steps: int, last_step: int | None, at_once: int = 1) -> None:
        """Record a window that has just ended, or several that were measured at the same time.

        Args:
            steps: Steps measured in the windows or skipped before them.
            last_step: Number of the job's step that closed the last window; None if the target reports none.
            at_once: Number of windows.
        """
        job_steps = steps
        if last_step is not None:
            job_steps = min(steps, last_step) if self._last_step is None else last_step - self._last_step
        if job_steps <= 0:
            return  # a failed launch: its seconds count in the next stretch
        now_s = self._clock()
        if steps > 0:
            self._stretches.append(_Stretch(now_s - self._noted_s, job_steps, steps, at_once))
        self._noted_s = now_s
        self._noted_steps += job_steps
        self._last_step = last_step

    @property
    def is_numbered(self) -> bool:
        """True if the target reports the numbers of the job's steps."""
        return self._last_step is not None

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds per step of a window, neighbours or not; None before the first window."""
        rates = [stretch.seconds * stretch.at_once / stretch.steps for stretch in self._stretches]
        return (median(rates) or None) if rates else None

    @property
    def job_steps_per_step(self) -> float:
        """Steps of the job per step measured or skipped; 1 if no others are counted, and before the first window."""
        return median(stretch.job_steps / stretch.steps for stretch in self._stretches) if self._stretches else 1.0

    @property
    def job_steps(self) -> float:
        """Steps of the job so far; those since the last window are estimated from the elapsed time."""
        if self._last_step is None or not self._stretches:
            return self._noted_steps
        each_s = median(stretch.seconds / stretch.job_steps for stretch in self._stretches)
        return self._noted_steps + ((self._clock() - self._noted_s) / each_s if each_s > 0 else 0.0)
