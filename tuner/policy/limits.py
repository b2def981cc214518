# SPDX-License-Identifier: Apache-2.0
"""What a budget of steps or seconds leaves a run, in steps that it measures or skips."""

import math

from .pace import PLANNED_SHARE, Pace
from .settings import RunSettings


def steps_left_by_limit(settings: RunSettings, pace: Pace, elapsed_s: float, baseline_s: float) -> dict[str, float]:
    """Return the steps left by each limit, infinite without it.

    What the job does between windows is taken off at the pace of the newest windows, and seconds count as the steps
    that they last for. Before the first window no pace is known, and seconds set no limit. A search may have found what
    is much faster than the baseline, but half of the test's windows are the baseline's, and have to fit.

    Args:
        settings: With the limits.
        pace: Of the run so far.
        elapsed_s: Since the run began, seconds.
        baseline_s: A step of the baseline, seconds; 0 where it was not measured.
    """
    left = {"steps": math.inf, "seconds": math.inf}
    if settings.max_steps is not None:
        limit = PLANNED_SHARE * settings.max_steps if pace.is_numbered else settings.max_steps
        left["steps"] = (limit - pace.job_steps) / pace.job_steps_per_step
    if settings.max_seconds is not None and pace.seconds_per_step is not None:
        planned_s = 0.0 if settings.fixed_windows else baseline_s  # most of a launch is no step
        left_s = PLANNED_SHARE * settings.max_seconds - elapsed_s
        least = (settings.least_steps - pace.job_steps) / pace.job_steps_per_step
        left["seconds"] = max(left_s / max(pace.seconds_per_step, planned_s), least)
    return left
