# SPDX-License-Identifier: Apache-2.0
"""Baseline and search: measure the designer's suggestions while a sample is worth its steps and fits the budget."""

import sys
from collections.abc import Sequence

from ringtune.tuner.sample import Phase, Trial, reason_of
from ringtune.tuner.space.config import Config

from .designer_watchdog import Advice, GuardedDesigner
from .measuring import Order
from .search_end import why_ended
from .state import Inconclusive, RunState


def measure_baseline(state: RunState, guard: GuardedDesigner) -> None:
    """Measure the baseline; choose the steps per window from its noise.

    Raises:
        DesignerFailed: If the designer cannot be used.
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    settings, windows = state.settings, state.policy.baseline_windows
    if settings.max_samples is not None:
        again = max(settings.max_samples - 1, 0) // state.policy.baseline_every
        state.journal.expect(windows + settings.max_samples + again + 2 * settings.adoption_pairs)
    state.journal.enter(Phase.BASELINE, windows, config=state.baseline)
    measure_repeatedly(state, state.baseline, Phase.BASELINE)
    state.adopted_before = guard.adopted_before(state.book.trials())


def measure_repeatedly(state: RunState, config: Config, phase: Phase) -> None:
    """Measure a config a few times; the noise so far and the budget set the length of each window.

    Raises:
        Inconclusive: If no window was valid.
        TargetClosed: If the job is over.
    """
    for index in range(state.policy.baseline_windows):
        if index and not state.has_room(state.steps):
            break
        sample = state.measure(config, phase, state.steps)
        state.steps = state.usual_steps(config)
        state.journal.advance()
    if not state.book.times_of(config):
        whose = "the baseline" if config == state.baseline else "what is in force"
        raise Inconclusive(f"no window of {whose} was valid: {reason_of(sample)}")


def search(state: RunState, guard: GuardedDesigner) -> None:
    """Measure the designer's suggestions until only the adoption test's share of the budget is left.

    The search of a live job ends earlier once the value of information of one more sample stays below the policy's
    threshold. Launches cost no training: they use the budget as long as there are untried configs.

    Raises:
        DesignerFailed: If the designer can no longer be used.
        TargetClosed: If the job is over.
    """
    settings = state.settings
    limit = sys.maxsize if settings.max_samples is None else settings.max_samples
    first = min(_searched_samples(settings.prior_trials), limit)  # a resumed run has taken the others
    state.journal.enter(Phase.SEARCH, settings.max_samples, config=state.baseline, done=first)
    worthless = 0
    for index in range(first, limit):
        if index > first and index % state.policy.baseline_every == 0 and state.has_room(state.steps):
            state.measure(state.baseline, Phase.BASELINE, state.steps)
        _wait_for_exploration_budget(state)
        if state.is_exploration_overdrawn or not state.has_room(state.least_window_steps):
            state.spent = state.nearest_limit
            break
        advice = _think(state, guard)
        worthless = 0 if _is_worth_a_sample(state, advice) else worthless + 1
        if worthless >= state.policy.patience:
            break
        _try(state, advice, guard.name)
        state.journal.advance()
    else:
        state.spent = "samples"
    state.ended = why_ended(state, worthless)


def _searched_samples(trials: Sequence[Trial]) -> int:
    """Return the number of search samples; a trial that only a check measured counts as one."""
    return sum(max(sum(sample.phase is Phase.SEARCH for sample in trial.samples), 1) for trial in trials)


def _is_worth_a_sample(state: RunState, advice: Advice) -> bool:
    """Return whether the value of information of a sample of the suggestion reaches the policy's threshold.

    A launch is always worth it while a config is untried.
    """
    if advice.posterior is None or (state.settings.fixed_windows and not state.is_every_config_tried):
        return True
    noise_variance = state.noise.window_variance(state.search_steps(advice.posterior.suggestion_std))
    return advice.posterior.value_of_sample(noise_variance) >= state.policy.least_value


def _think(state: RunState, guard: GuardedDesigner) -> Advice:
    """Ask the designer for advice while the job trains under the best config so far."""
    state.meter.switch(state.interim)
    advice = guard.advise(state.book.levelled(), state.book.measured())
    state.incumbent, state.expected_gain = advice.incumbent, advice.expected_gain
    state.gain = None if advice.posterior is None else advice.posterior.gain()
    return advice


def _try(state: RunState, advice: Advice, designer: str) -> None:
    """Measure the suggested config."""
    config = advice.suggestion.config
    state.journal.suggestion(advice.suggestion, state.book.id_of(config), designer=designer, ask_ms=advice.ask_ms)
    steps = state.search_steps(0.0 if advice.posterior is None else advice.posterior.suggestion_std)
    room = state.steps_left - state.reserved_steps - state.policy.settle_steps
    fitting = int(min(steps, max(room, state.least_window_steps)))
    state.measure(config, Phase.SEARCH, fitting, state.policy.cut_factor * state.baseline_ms)


def _wait_for_exploration_budget(state: RunState) -> None:
    """Let the job train under the best config so far while the exploration budget is overdrawn.

    No candidate is measured meanwhile, so that waiting can gain time but never costs any. The windows are written to
    the log alone, in the watch phase.
    """
    while state.is_exploration_overdrawn and state.has_room(state.steps):
        trial_id = state.book.id_of(state.interim)
        waited = state.meter.measure(Order(state.interim, trial_id, Phase.WATCH, state.steps))
        state.meter.credit(waited, state.baseline_ms)
