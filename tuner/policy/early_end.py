# SPDX-License-Identifier: Apache-2.0
"""Report of a run that ends before a verdict: the best config so far, its interval, and the estimated further need.

The best config is reported with an interval and without a gain, because no paired test has shown one. A single window
gives no interval. The estimate counts the configs that a search rarely ends before and the pairs that should show the
expected gain, at the pace of the run so far.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.system.counts import counted
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.sample import Phase, Trial
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.readable import readable_changes, readable_percent
from ringtune.tuner.statistics.noise import WindowNoise
from ringtune.tuner.statistics.paired_test import CI_LEVEL, Interval
from ringtune.tuner.statistics.window_interval import WindowGain, untested_interval

from .budget import MOST_PAIRS, adoption_steps, pairs_needed
from .state import RunState
from .value import Gain

LEAST_CONFIGS = 10
"""Configs, the baseline included, that a search of several knobs rarely ends before."""
SPENT_SHARE = 0.95
"""Share of a limit from which it counts as spent in words; the policy plans with less than all of it."""
USUAL_GAIN = 0.05
"""Gain assumed for the estimate if nothing better than the baseline was found yet."""
ROUGH_STEPS = 200
"""Steps that usually suffice for a verdict with little noise; the estimate before anything was measured."""


@dataclass(frozen=True)
class SoFar:
    """State of a run when it ended.

    Attributes:
        trials: All trials, the baseline first.
        baseline: The config without tuning.
        phase: Phase in which the run ended.
        best: Config with the best expected step time; the baseline if there is no better one.
        interval: Interval of its speed-up at level CI_LEVEL; None for the baseline, or if only one window measured it.
        pairs: Measured pairs of the adoption test.
        most_pairs: Maximum number of pairs of the test.
        steps: Steps of the job since tuning began.
        measured_steps: Steps among them that were measured or skipped.
        seconds: Time since tuning began, seconds.
        sample_steps: Steps of a window of the search.
        pair_steps: Steps of each window of a pair.
        least_configs: Configs that a search rarely ends before.
    """

    trials: Sequence[Trial]
    baseline: Config
    phase: Phase
    best: Config
    interval: Interval | None
    pairs: int
    most_pairs: int
    steps: float
    measured_steps: int
    seconds: float
    sample_steps: int = POLICY.least_window_steps
    pair_steps: int = POLICY.least_window_steps
    least_configs: int = LEAST_CONFIGS

    @property
    def measured(self) -> int:
        """Number of configs with a valid window, the baseline included."""
        return sum(trial.is_conclusive for trial in self.trials)

    @property
    def sought_gain(self) -> float:
        """Gain that a test would have to show, a fraction: that of the best config, or a usual one if none is known."""
        return self.interval.speedup if self.interval is not None and self.interval.speedup > 0 else USUAL_GAIN

    @property
    def is_baseline_measured(self) -> bool:
        """True if the baseline has a valid window."""
        return any(trial.is_conclusive for trial in self.trials if trial.config == self.baseline)


@dataclass(frozen=True)
class Needed:
    """Estimate of the further measurements that a verdict needs.

    Attributes:
        samples: Further configs.
        pairs: Further pairs.
        steps: Total steps of the job since tuning began.
        seconds: Total time since tuning began, seconds.
        can_be_shown: Whether the test's maximum number of pairs can show the gain.
    """

    samples: int
    pairs: int
    steps: int
    seconds: int
    can_be_shown: bool


def so_far_of(state: RunState) -> SoFar:
    """Return the state of a run; the interval comes from the adoption test, else the designer, else the windows."""
    meter = state.meter
    best, pairs = state.incumbent, 0
    if state.test is not None and state.challenger is not None:
        best, pairs = state.challenger, len(state.test.pairs)
    if state.test is not None and state.test.is_decidable:
        interval: Interval | None = state.test.interval
    else:
        expected = state.gain if best == state.incumbent else None
        interval = windows_interval(state.book.levelled(), state.baseline, best, expected)
    return SoFar(
        trials=state.book.trials(),
        baseline=state.baseline,
        phase=state.journal.phase,
        best=best,
        interval=interval,
        pairs=pairs,
        most_pairs=state.settings.adoption_pairs,
        steps=state.steps_used,
        measured_steps=meter.steps + state.settings.earlier.steps,
        seconds=state.seconds_used,
        sample_steps=state.steps,
        pair_steps=state.pair_window_steps,
        least_configs=least_configs(state),
    )


def least_configs(state: RunState) -> int:
    """Return the number of configs that a search rarely ends before; all configs if there are fewer."""
    return int(min(LEAST_CONFIGS, state.config_count))


def ended_job_text(state: RunState) -> str:
    """Return the verdict of a run whose job ended first, or that was ended between two launches."""
    so_far, name = so_far_of(state), state.settings.limit_name
    steps = counted(round(so_far.steps), "step")
    ended, means = ("the job ended", " to less than the job takes")
    if state.settings.fixed_windows:
        ended, means = ("the run was ended", "")
    return (
        f"unfinished: {ended} in the {so_far.phase.value} phase of tuning, after {steps}, "
        f"{so_far.seconds:.3g} s. {best_text(so_far)} {needed_text(so_far)} "
        f"Set {name('steps')} or {name('seconds')}{means}, and the tuner decides in time"
    )


def ended_tuning_text(state: RunState, reason: str) -> str:
    """Return the verdict of a run that somebody ended for a reason of their own, while the job goes on.

    Args:
        state: State of the run.
        reason: The reason, a sentence without a full stop.
    """
    so_far = so_far_of(state)
    steps = counted(round(so_far.steps), "step")
    return (
        f"unfinished: {reason}. This ended the {so_far.phase.value} phase of tuning after {steps}, "
        f"{so_far.seconds:.3g} s. {best_text(so_far)}"
    )


def spent_budget_text(state: RunState, unit: str) -> str:
    """Return the addition to a verdict if the budget was spent before the test could decide.

    Args:
        state: State of the run.
        unit: Unit of the limit that was reached: `samples`, `steps` or `seconds`.
    """
    so_far, settings = so_far_of(state), state.settings
    limit = {"samples": settings.max_samples, "steps": settings.max_steps, "seconds": settings.max_seconds}[unit]
    used = {"samples": limit, "steps": so_far.steps, "seconds": so_far.seconds}[unit]
    return f"{_spent_text(so_far, settings.limit_name(unit), used, limit)}. {best_text(so_far)} {needed_text(so_far)}"


def _spent_text(so_far: SoFar, name: str, used: float | None, limit: float | None) -> str:
    """Return how much of a limit was used, and why the rest was not."""
    if limit is None or used is None or used >= SPENT_SHARE * limit:
        return f"{name}={limit:g} was spent first"
    rest = "no further pair fits the rest" if so_far.phase is Phase.ADOPTION else "the rest is kept for a paired test"
    return f"{used:.3g} of {name}={limit:g} were used; {rest}"


def windows_interval(
    trials: Sequence[Trial], baseline: Config, config: Config, expected: Gain | None = None
) -> Interval | None:
    """Return the interval of an untested config's speed-up; None for the baseline, or if one window measured it.

    Args:
        trials: All trials, relative to the baseline windows beside them.
        baseline: The config without tuning.
        config: The config.
        expected: Posterior of its gain; None takes the gain from its own and the baseline's windows.
    """
    by_config = {trial.config: trial for trial in trials if trial.is_conclusive}
    if config == baseline or not {config, baseline} <= set(by_config):
        return None
    base_samples, samples = ([s for s in by_config[each].samples if s.valid] for each in (baseline, config))
    if expected is None:
        noise = WindowNoise.of(trials)
        (base, base_variance), (mean, variance) = noise.mean_of(base_samples), noise.mean_of(samples)
        gain = WindowGain(base - mean, base_variance + variance, len(samples))
    else:
        gain = WindowGain(expected.mean, expected.std**2, len(samples))
    return untested_interval(gain, by_config[baseline].log_step_ms)


def needed(so_far: SoFar) -> Needed | None:
    """Return the estimated further measurements for a verdict; None if the baseline was not measured."""
    if not so_far.is_baseline_measured or so_far.measured_steps <= 0:
        return None
    has_searched = so_far.phase is Phase.ADOPTION
    samples = 0 if has_searched else max(so_far.least_configs - so_far.measured, 0)
    noise = WindowNoise.of(so_far.trials)
    pairs = pairs_needed(math.log1p(so_far.sought_gain), noise, so_far.pair_steps)
    further = max(min(pairs, MOST_PAIRS) - so_far.pairs, 1)
    settle = POLICY.settle_steps
    measured = samples * (so_far.sample_steps + settle) + adoption_steps(further, so_far.pair_steps, settle)
    share = 1.0 + measured / so_far.measured_steps
    steps, seconds = (rounded_up(spent * share) for spent in (so_far.steps, so_far.seconds))
    return Needed(samples, further, steps, seconds, can_be_shown=pairs <= so_far.most_pairs)


def rounded_up(number: float) -> int:
    """Round up to two significant digits, at least 1: 0.2 gives 1, and 234 gives 240."""
    whole = max(math.ceil(number), 1)
    unit = int(10 ** max(len(str(whole)) - 2, 0))
    return math.ceil(whole / unit) * unit


def best_text(so_far: SoFar) -> str:
    """Return a sentence on the best config so far, with the interval of its speed-up."""
    if not so_far.is_baseline_measured:
        return "Nothing was measured yet."
    others = so_far.measured - 1
    if others <= 0:
        return "Nothing but the default was measured yet."
    if so_far.best == so_far.baseline:
        return f"The best so far is the default: none of {counted(others, 'other config')} is expected to be faster."
    best, interval = f"Best so far: {readable_changes(so_far.baseline, so_far.best)}", so_far.interval
    windows = sum(s.valid for trial in so_far.trials if trial.config == so_far.best for s in trial.samples)
    if interval is None:
        return f"{best}; {'one window' if windows == 1 else counted(windows, 'window')}, not tested."
    rests_on = counted(so_far.pairs, "pair") if so_far.pairs > 1 else f"{counted(windows, 'window')}, no paired test"
    return (
        f"{best}; {100 * CI_LEVEL:g} % interval of its speed-up "
        f"{readable_percent(interval.low)} to {readable_percent(interval.high)}, by {rests_on}."
    )


def needed_text(so_far: SoFar) -> str:
    """Return a sentence on the measurements that a verdict would have needed."""
    estimate = needed(so_far)
    if estimate is None:
        return f"A verdict takes some {ROUGH_STEPS} steps, more where step times scatter."
    more = counted(estimate.pairs, "more pair")
    if not estimate.can_be_shown:
        sought = readable_percent(so_far.sought_gain).removeprefix("+")
        has = f"the test has {so_far.most_pairs}"
        return f"A verdict on a gain of {sought} amid this noise would need about {more}; {has}."
    if estimate.samples:
        more = f"{counted(estimate.samples, 'more config')} and {more}"
    return (
        f"A verdict would have needed about {more}: {counted(estimate.steps, 'step')} or {estimate.seconds} s in all."
    )
