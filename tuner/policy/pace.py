# SPDX-License-Identifier: Apache-2.0
"""How fast a run spends the job's steps and seconds, thinking, switching and pauses between windows included."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from ringtune.tuner.policy_numbers import POLICY, Policy


@dataclass(frozen=True)
class _Stretch:
    """From the end of one window to the end of the next.

    Attributes:
        seconds: Its duration.
        job_steps: Steps that the job took in it.
        steps: Those of them that the run measured or skipped to settle.
    """

    seconds: float
    job_steps: int
    steps: int


class Pace:
    """Seconds, and steps of the job, for each step that a run measures or skips to settle.

    A job trains on between two windows. Where the target tells the number of the job's step that closed a window, all
    steps count; otherwise those of the windows.
    """

    def __init__(self, clock: Callable[[], float], policy: Policy = POLICY) -> None:
        """Begin now, on a monotonic clock of seconds."""
        self._clock = clock
        self._stretches: deque[_Stretch] = deque(maxlen=policy.pace_windows)
        self._noted_s = clock()
        self._noted_steps = 0
        self._last_step: int | None = None

    def note(self, steps: int, last_step: int | None) -> None:
        """Take in a window that has just ended.

        Args:
            steps: Measured in it, and skipped before it.
            last_step: As of `Window`.
        """
        job_steps = self._job_steps_of(steps, last_step)
        if job_steps <= 0:
            return  # a launch that failed: the next stretch has its seconds
        now_s = self._clock()
        if steps > 0:
            self._stretches.append(_Stretch(now_s - self._noted_s, job_steps, steps))
        self._noted_s = now_s
        self._noted_steps += job_steps
        self._last_step = last_step

    @property
    def is_numbered(self) -> bool:
        """Whether the target tells the numbers of the job's steps."""
        return self._last_step is not None

    @property
    def seconds_per_step(self) -> float | None:
        """Seconds for each step measured or skipped; None before the first window."""
        rates = [stretch.seconds / stretch.steps for stretch in self._stretches]
        return (median(rates) or None) if rates else None

    @property
    def job_steps_per_step(self) -> float:
        """Steps of the job for each step measured or skipped; 1 where only those count, and before the first window."""
        return median(stretch.job_steps / stretch.steps for stretch in self._stretches) if self._stretches else 1.0

    @property
    def job_steps(self) -> float:
        """Steps of the job so far; since the last window as many as its time makes likely."""
        if self._last_step is None or not self._stretches:
            return self._noted_steps
        each_s = median(stretch.seconds / stretch.job_steps for stretch in self._stretches)
        return self._noted_steps + ((self._clock() - self._noted_s) / each_s if each_s > 0 else 0.0)

    def _job_steps_of(self, steps: int, last_step: int | None) -> int:
        if last_step is None:
            return steps
        return min(steps, last_step) if self._last_step is None else last_step - self._last_step
