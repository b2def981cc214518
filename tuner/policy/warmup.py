# SPDX-License-Identifier: Apache-2.0
"""Warmup: nothing is measured until step times are stable, or for as many steps as the user asked."""

import math
from collections.abc import Sequence
from statistics import fmean

from ringtune.tuner.sample import Phase, Sample, StepTimes, reason_of
from ringtune.tuner.statistics.student_t import student_t_quantile

from .measuring import MIN_STEPS, SHORT_WINDOW_STEPS, Order, steps_for
from .phases import Inconclusive, RunState
from .trials import BASELINE_ID

WARMUP_WINDOW_MS = 100.0
"""A warmup window lasts at least this, or MAX_WARMUP_WINDOW_STEPS."""
MAX_WARMUP_WINDOW_STEPS = 100
STABLE_WINDOWS = 5
"""Stable means: no significant slope over this many windows."""
MAX_WARMUP_WINDOWS = 30
WARMUP_SHARE = 1 / 8
"""Of a budget of steps or seconds; after it the baseline is measured, stable or not."""
NEGLIGIBLE_DRIFT = 0.01
"""A drift below this over the windows looked at is stable, however significant."""


def warm_up(state: RunState) -> None:
    """Run the baseline until its step times are stable, or for as many steps as the user asked.

    Raises:
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    state.journal.enter(Phase.WARMUP, config=state.baseline)
    wanted = state.settings.warmup_steps
    samples = _settle(state) if wanted is None else _run_in(state, wanted)
    times = _valid_times(samples)
    if wanted is None and not times:
        raise Inconclusive(f"none of {len(samples)} windows was valid while warming up: {reason_of(samples[-1])}")
    steps = steps_for(times[-STABLE_WINDOWS:], state.settings.steps_per_sample)
    state.steps = min(steps, state.most_window_steps)


def is_stable(medians: Sequence[float]) -> bool:
    """Tell whether the last windows' medians have no significant, or only a negligible, slope.

    Args:
        medians: Median step times of the windows so far, above zero.
    """
    if len(medians) < STABLE_WINDOWS:
        return False
    y = [math.log(x) for x in medians[-STABLE_WINDOWS:]]
    x_mean, y_mean = (STABLE_WINDOWS - 1) / 2, fmean(y)
    spread = sum((x - x_mean) ** 2 for x in range(STABLE_WINDOWS))
    slope = sum((x - x_mean) * (value - y_mean) for x, value in enumerate(y)) / spread
    if abs(slope) * (STABLE_WINDOWS - 1) < NEGLIGIBLE_DRIFT:
        return True
    residual = sum((value - y_mean - slope * (x - x_mean)) ** 2 for x, value in enumerate(y))
    freedom = STABLE_WINDOWS - 2
    error = math.sqrt(residual / freedom / spread)
    return abs(slope) < student_t_quantile(freedom, 0.975) * error


def _settle(state: RunState) -> list[Sample]:
    """Take windows until their step times are stable, or there were enough."""
    samples: list[Sample] = []
    while len(samples) < MAX_WARMUP_WINDOWS and state.meter.steps <= WARMUP_SHARE * state.total_steps:
        wanted = _warmup_window_steps(_valid_times(samples))
        samples.append(_warmup_window(state, _affordable(state, wanted)))
        if is_stable([times.median for times in _valid_times(samples)]):
            break
    return samples


def _affordable(state: RunState, wanted: int) -> int:
    """Return the steps of a window, fewer where the budget has no room; few before a pace tells what seconds allow."""
    if not state.settings.counts_steps:
        return wanted
    total = state.total_steps
    left = 0 if math.isinf(total) else int(WARMUP_SHARE * total) - state.meter.steps
    return min(max(left, SHORT_WINDOW_STEPS), wanted)


def _run_in(state: RunState, wanted: int) -> list[Sample]:
    """Take windows of so many steps in all."""
    sizes = [MAX_WARMUP_WINDOW_STEPS] * (wanted // MAX_WARMUP_WINDOW_STEPS)
    rest = wanted % MAX_WARMUP_WINDOW_STEPS
    return [_warmup_window(state, steps) for steps in (*sizes, rest) if steps]


def _warmup_window(state: RunState, steps: int) -> Sample:
    sample = state.meter.measure(Order(state.baseline, BASELINE_ID, Phase.WARMUP, steps), repeats=0)
    state.journal.advance()
    return sample


def _warmup_window_steps(times: Sequence[StepTimes]) -> int:
    if not times:
        return MIN_STEPS
    return min(max(math.ceil(WARMUP_WINDOW_MS / times[-1].median), MIN_STEPS), MAX_WARMUP_WINDOW_STEPS)


def _valid_times(samples: Sequence[Sample]) -> list[StepTimes]:
    return [sample.step_times for sample in samples if sample.valid]
