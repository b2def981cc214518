# SPDX-License-Identifier: Apache-2.0
"""Warmup: run the baseline until step times are stable, or for the number of steps that the user has set."""

import math
from collections.abc import Sequence
from statistics import fmean

from ringtune.tuner.policy_numbers import POLICY, Policy
from ringtune.tuner.sample import Phase, Sample, StepTimes, reason_of
from ringtune.tuner.statistics.student_t import student_t_quantile

from .measuring import Order, steps_for
from .state import Inconclusive, RunState
from .trials import BASELINE_ID


def warm_up(state: RunState) -> None:
    """Run the baseline until its step times are stable, or for the number of steps that the user has set.

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
    newest = times[-state.policy.stable_windows :]
    steps = steps_for(newest, state.settings.steps_per_sample, state.policy)
    state.steps = min(steps, state.most_window_steps)


def is_stable(medians: Sequence[float], policy: Policy = POLICY) -> bool:
    """Return whether the slope of the last windows' medians is insignificant or negligible.

    Args:
        medians: Median step times of the windows so far, above zero.
        policy: Constants of the policy.
    """
    windows = policy.stable_windows
    if len(medians) < windows:
        return False
    y = [math.log(x) for x in medians[-windows:]]
    x_mean, y_mean = (windows - 1) / 2, fmean(y)
    spread = sum((x - x_mean) ** 2 for x in range(windows))
    slope = sum((x - x_mean) * (value - y_mean) for x, value in enumerate(y)) / spread
    if abs(slope) * (windows - 1) < policy.negligible_drift:
        return True
    residual = sum((value - y_mean - slope * (x - x_mean)) ** 2 for x, value in enumerate(y))
    freedom = windows - 2
    error = math.sqrt(residual / freedom / spread)
    return abs(slope) < student_t_quantile(freedom, 0.975) * error


def _settle(state: RunState) -> list[Sample]:
    """Take windows until their step times are stable, or until the limit of the warmup."""
    samples: list[Sample] = []
    policy = state.policy
    while len(samples) < policy.most_warmup_windows and state.meter.steps <= policy.warmup_share * state.total_steps:
        samples.append(_warmup_window(state, _window_steps(state, _valid_times(samples))))
        if is_stable([times.median for times in _valid_times(samples)], policy):
            break
    return samples


def _window_steps(state: RunState, times: Sequence[StepTimes]) -> int:
    """Return the steps of the next window; the minimum while there are no step times, or a budget without a pace."""
    policy, total = state.policy, state.total_steps
    if not times or (state.settings.has_budget and math.isinf(total)):
        return policy.least_window_steps
    left = math.inf if math.isinf(total) else int(policy.warmup_share * total) - state.meter.steps
    wanted = min(math.ceil(policy.warmup_window_ms / times[-1].median), policy.warmup_window_steps)
    return int(max(min(wanted, left), policy.least_window_steps))


def _run_in(state: RunState, wanted: int) -> list[Sample]:
    """Take windows with a total of `wanted` steps."""
    whole, rest = divmod(wanted, state.policy.warmup_window_steps)
    sizes = [state.policy.warmup_window_steps] * whole
    return [_warmup_window(state, steps) for steps in (*sizes, rest) if steps]


def _warmup_window(state: RunState, steps: int) -> Sample:
    sample = state.meter.measure(Order(state.baseline, BASELINE_ID, Phase.WARMUP, steps), repeats=0)
    state.journal.advance()
    return sample


def _valid_times(samples: Sequence[Sample]) -> list[StepTimes]:
    return [sample.step_times for sample in samples if sample.valid]
