# SPDX-License-Identifier: Apache-2.0
"""Baseline and search: measure the designer's suggestions while a sample is worth its steps and fits the budget.

Launches may be measured `at_once`. They disturb each other, so that baseline and search always have the same number of
neighbours: the baseline's windows are measured beside each other, then again beside suggestions, and it takes the
places for which there is no suggestion. Times of baseline and search are therefore comparable among themselves. The
adoption test measures one window at a time: a config that only suits a crowded machine does not win.
"""

import math
import sys
from collections.abc import Iterator, Sequence

from ringtune.tuner.sample import Phase, Sample, reason_of
from ringtune.tuner.space.config import Config

from .believing import believed
from .designer_watchdog import Advice, GuardedDesigner
from .measuring import Order
from .search_end import why_ended
from .settings import RunSettings
from .state import Inconclusive, RunState

CROWDED = 1.25
"""Step time beside neighbours, as a multiple of that without, above which a warning names it: launches scatter by less.

`tests/unit/tuner/policy/test_at_once.py`.
"""
LEAST_GROUPS = 3
"""Least number of groups of windows at the same time that a budget must have room for: one measures the baseline."""


def measure_baseline(state: RunState, guard: GuardedDesigner) -> None:
    """Measure the baseline; choose the steps per window from its noise.

    Where windows are measured at once, the first is alone: people are warned if neighbours make the steps much longer.
    There are never more at once than configs to try, or than leave room in the budget for `LEAST_GROUPS`.

    Raises:
        DesignerFailed: If the designer cannot be used.
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    settings = state.settings
    state.at_once = int(min(settings.at_once, settings.max_samples or math.inf, state.config_count))
    groups = math.ceil(state.windows_needed(state.baseline) / state.at_once)
    if settings.max_samples is not None:
        left = max(settings.max_samples - _searched_samples(settings), 0)
        again = max(left - 1, 0) // state.policy.baseline_every
        searched = math.ceil((left + again) / state.at_once)
        state.journal.expect(groups + searched + 2 * settings.adoption_pairs)
    state.journal.enter(Phase.BASELINE, groups * state.at_once, config=state.baseline)
    alone = _measured_alone(state) if state.at_once > 1 else None
    measure_repeatedly(state, state.baseline, Phase.BASELINE)
    if alone is not None and alone.valid and state.baseline_ms > CROWDED * alone.step_times.median:
        state.journal.warn(_crowded_text(state.at_once, state.baseline_ms / alone.step_times.median))
    state.adopted_before = guard.adopted_before(state.book.trials()) or settings.earlier.adopted


def _measured_alone(state: RunState) -> Sample:
    """Return a sample of the baseline without neighbours, which is no evidence beside the others."""
    alone = state.meter.measure(state.order(state.baseline, Phase.WARMUP, state.steps), repeats=0)
    state.steps = alone.steps or state.steps
    fitting = (count for count in range(state.at_once, 1, -1) if state.has_room(LEAST_GROUPS * alone.steps, count))
    state.at_once = next(fitting, 1)
    return alone


def _crowded_text(at_once: int, ratio: float) -> str:
    text = f"{at_once} launches at once take {ratio:.2g} times as long as one alone: they disturb each other"
    return f"{text}{', and save no time' if ratio >= at_once else ''}; a search with fewer at once is more exact"


def measure_repeatedly(state: RunState, config: Config, phase: Phase) -> None:
    """Measure a config a few times; the noise so far and the budget set the length of each window.

    Raises:
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    at_once, taken = state.at_once, 0
    while taken < state.windows_needed(config) and (not taken or state.has_room(state.steps, at_once)):
        samples = state.measure([state.order(config, phase, state.steps)] * at_once)
        state.steps = state.usual_steps(config)
        state.journal.advance(at_once)
        taken += at_once
    if not state.book.times_of(config):
        whose = "the baseline" if config == state.baseline else "what is in force"
        raise Inconclusive(f"no window of {whose} was valid: {reason_of(samples[-1])}")


def search(state: RunState, guard: GuardedDesigner) -> None:
    """Measure the designer's suggestions until only the adoption test's share of the budget is left.

    The search of a live job ends earlier once the value of information of one more sample stays below the policy's
    threshold. Launches cost no training: they use the budget as long as there are untried configs.

    Raises:
        DesignerFailed: If the designer can no longer be used.
        TargetClosed: If the job is over.
    """
    settings, every = state.settings, state.policy.baseline_every
    limit = sys.maxsize if settings.max_samples is None else settings.max_samples
    done = min(_searched_samples(settings), limit)  # a resumed run has taken these
    state.journal.enter(Phase.SEARCH, settings.max_samples, config=state.baseline, done=done)
    since_baseline, worthless = done % every, 0
    while done < limit and worthless < state.policy.patience:
        _wait_for_exploration_budget(state)
        if state.is_exploration_overdrawn or not state.has_room(state.least_window_steps, state.at_once):
            state.spent = state.nearest_limit
            break
        is_due = since_baseline >= every and state.has_room(state.steps, state.at_once)
        advices, worthless = _group(state, guard, min(state.at_once - is_due, limit - done), worthless)
        _try(state, advices, guard.name, is_due=is_due)
        since_baseline = len(advices) if len(advices) < state.at_once else since_baseline + len(advices)
        done += len(advices)
    state.spent = "samples" if done >= limit else state.spent
    state.ended = why_ended(state, worthless)


def _searched_samples(settings: RunSettings) -> int:
    """Return the number of earlier search samples; a prior trial that only a check measured counts as one."""
    trials = (sum(sample.phase is Phase.SEARCH for sample in trial.samples) for trial in settings.prior_trials)
    return settings.earlier.searched + sum(max(count, 1) for count in trials)


def _is_worth_a_sample(state: RunState, advice: Advice) -> bool:
    """Return whether the value of information of a sample of the suggestion reaches the policy's threshold.

    A launch is always worth it while a config is untried.
    """
    if advice.posterior is None or (state.settings.fixed_windows and not state.is_every_config_tried):
        return True
    noise_variance = state.noise.window_variance(state.search_steps(advice.posterior.suggestion_std))
    return advice.posterior.value_of_sample(noise_variance) >= state.least_value


def _group(state: RunState, guard: GuardedDesigner, count: int, worthless: int) -> tuple[list[Advice], int]:
    """Return advice on the next configs, fewer than `count` where the policy's patience ends.

    Args:
        state: The run.
        guard: The designer.
        count: Number of configs to measure at the same time.
        worthless: Number of suggestions in a row, before these, that were not worth a sample.

    Returns:
        The advice, and the number of suggestions in a row that were not worth a sample.
    """
    advices: list[Advice] = []
    for advice in _advised(state, guard, count):
        worthless = 0 if _is_worth_a_sample(state, advice) else worthless + 1
        if worthless >= state.policy.patience:
            break
        advices.append(advice)
    return advices, worthless


def _advised(state: RunState, guard: GuardedDesigner, count: int) -> Iterator[Advice]:
    """Yield advice on the next configs, one after another, while the job trains under the best config so far."""
    trials, measured = state.book.levelled(), state.book.measured()
    for place in range(count):
        state.meter.switch(state.interim)
        advice = guard.advise(trials, measured)
        if place == 0:
            state.incumbent, state.expected_gain = advice.incumbent, advice.expected_gain
            state.gain = None if advice.posterior is None else advice.posterior.gain()
        yield advice
        trials = believed(trials, advice.suggestion.config, advice.log_step_ms)


def _try(state: RunState, advices: Sequence[Advice], designer: str, *, is_due: bool) -> None:
    """Measure the suggested configs at the same time, and the baseline in the places that are left."""
    orders = [_order(state, advice, designer) for advice in advices]
    free = state.at_once - len(orders)
    if orders or is_due:
        state.measure([state.order(state.baseline, Phase.BASELINE, state.steps)] * free + orders)
    if orders:
        state.journal.advance(len(orders))


def _order(state: RunState, advice: Advice, designer: str) -> Order:
    """Write the suggestion to the log, and return the request for its window."""
    config = advice.suggestion.config
    state.journal.suggestion(advice.suggestion, state.book.id_of(config), designer=designer, ask_ms=advice.ask_ms)
    steps = state.search_steps(0.0 if advice.posterior is None else advice.posterior.suggestion_std)
    room = state.steps_left - state.reserved_steps - state.policy.settle_steps
    fitting = int(min(steps, max(room, state.least_window_steps)))
    return state.order(config, Phase.SEARCH, fitting, state.policy.cut_factor * state.baseline_ms)


def _wait_for_exploration_budget(state: RunState) -> None:
    """Let the job train under the best config so far while the exploration budget is overdrawn.

    No candidate is measured meanwhile, so that waiting can gain time but never costs any. The windows are written to
    the log alone, in the watch phase.
    """
    while state.is_exploration_overdrawn and state.has_room(state.steps):
        trial_id = state.book.id_of(state.interim)
        waited = state.meter.measure(Order(state.interim, trial_id, Phase.WATCH, state.steps))
        state.meter.credit(waited, state.baseline_ms)
