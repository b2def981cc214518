# SPDX-License-Identifier: Apache-2.0
"""Adoption test: compares baseline and challenger in fresh interleaved pairs; the best score seen never decides."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev

import numpy as np

from ringtune.tuner.designers.base import Prediction
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.readable import readable_percent
from ringtune.tuner.statistics.paired_test import CI_LEVEL, ERROR, LEAST_PAIRS, Interval, NoisePrior, Pair, PairedTest

from . import search_end
from .budget import adoption_steps
from .designer_watchdog import GuardedDesigner
from .early_end import least_configs, spent_budget_text
from .measuring import Order
from .state import RunState

_BOUND_STDS = NormalDist().inv_cdf(1.0 - ERROR)
"""Standard errors between zero and the smallest gain that many pairs can show."""


@dataclass(frozen=True)
class Decision:
    """Decision of a run: the config to run from now on, and the reason.

    Attributes:
        config: The config to apply.
        adopted: Whether it is the challenger.
        verdict: One line for people.
        interval: Interval of the measured speed-up; None without a test.
        pairs: Measured pairs of the test.
        is_complete: False if the job ended before the run could decide.
    """

    config: Config
    adopted: bool
    verdict: str
    interval: Interval | None = None
    pairs: tuple[Pair, ...] = ()
    is_complete: bool = True


def keep(state: RunState, reason: str) -> Decision:
    """Return the decision to keep the baseline without a test."""
    return Decision(state.baseline, adopted=False, verdict=f"keeping {state.settings.baseline_name}: {reason}")


def decide(state: RunState, guard: GuardedDesigner) -> Decision:
    """Test the measured config with the lowest posterior mean if its expected gain is large enough.

    Raises:
        DesignerFailed: If the designer can no longer be used.
        TargetClosed: If the job is over.
    """
    measured = state.book.measured()
    prediction = guard.predict(state.book.levelled(), measured)
    best = _best(prediction, measured, state.adopted_before)
    means = prediction.mean_log_step_ms
    if math.expm1(means[measured.index(state.baseline)] - means[best]) < state.policy.least_gain:
        return keep(state, _with_what_was_spent(state, _why_none(state, prediction, measured)))
    return compare(state, measured[best])


def compare(state: RunState, challenger: Config) -> Decision:
    """Measure pairs until the test can stop early, or until the pairs or the budget are spent.

    Raises:
        TargetClosed: If the job is over.
        TensorSetChanged: If the job now reduces other tensors.
    """
    total, steps = state.settings.adoption_pairs, state.pair_window_steps
    state.journal.enter(Phase.ADOPTION, total, config=challenger)
    noise = state.noise
    test = PairedTest(NoisePrior(noise.pair_variance(steps), noise.weight), state.policy)
    state.test, state.challenger = test, challenger
    for _ in range(state.policy.attempts_per_pair * total):
        is_reversed = state.meter.in_force == challenger  # start with the config in force: no switch between pairs
        order = (challenger, state.baseline) if is_reversed else (state.baseline, challenger)
        if len(test.pairs) == total or test.can_end_early or not _fits(state, order[0], steps):
            break
        if pair := _measured_pair(state, order, steps):
            test.pairs.append(pair)
            state.journal.advance()
    else:
        if len(test.pairs) < total:
            tested = f"only {len(test.pairs)} of {total} pairs"
            return keep(state, f"{tested} of the adoption test had valid windows")
    if test.is_decidable:
        return _judge(state, challenger, test)
    reason = f"a decision needs {LEAST_PAIRS} adoption pairs and got {len(test.pairs)}"
    if state.settings.has_budget:
        reason += f"; {spent_budget_text(state, state.nearest_limit)}"
    return keep(state, reason)


def _best(prediction: Prediction, measured: Sequence[Config], adopted_before: Config | None) -> int:
    """Return the index of the config to test, the one with the lowest posterior mean.

    A config that an earlier run adopted is preferred unless another is better by more than one standard deviation: it
    has already won a test.
    """
    means, stds = prediction.mean_log_step_ms, prediction.std
    best = int(np.argmin(means))
    if adopted_before not in measured:
        return best
    before = measured.index(adopted_before)
    return before if means[before] - means[best] <= math.hypot(stds[before], stds[best]) else best


def _fits(state: RunState, first: Config, steps: int) -> bool:
    """Return whether the budget allows one more pair; a first window of the config in force needs no settling."""
    settle = state.policy.settle_steps
    needed = adoption_steps(1, steps, settle) - settle * (state.meter.in_force == first)
    return state.steps_left >= needed


def _measured_pair(state: RunState, order: Sequence[Config], steps: int) -> Pair | None:
    """Measure one window of each config; return None at the first void window, without measuring the other."""
    typical_ms: dict[Config, float] = {}
    for config in order:
        sample = state.meter.measure(Order(config, state.book.id_of(config), Phase.ADOPTION, steps), repeats=0)
        state.journal.measured()
        if not sample.valid:
            return None
        state.book.add(sample)
        typical_ms[config] = sample.typical_ms
    challenger = next(config for config in order if config != state.baseline)
    return Pair(typical_ms[state.baseline], typical_ms[challenger])


def _judge(state: RunState, challenger: Config, test: PairedTest) -> Decision:
    """Adopt a challenger that the test shows to be faster; otherwise keep the baseline and claim no gain."""
    interval, pairs = test.interval, tuple(test.pairs)
    bounds = f"{readable_percent(interval.low)} to {readable_percent(interval.high)}, {len(pairs)} pairs"
    if test.shows_gain:
        if challenger == state.adopted_before:
            bounds += "; an earlier run of the same job has adopted it, too"
        verdict = f"adopted: {readable_percent(interval.speedup)} faster ({100 * CI_LEVEL:g} % interval {bounds})"
        return Decision(challenger, True, verdict, interval, pairs)
    verdict = (
        f"keeping {state.settings.baseline_name}: the best candidate was not shown to be faster "
        f"({100 * CI_LEVEL:g} % interval of its speed-up {bounds})"
    )
    if state.settings.has_budget and len(pairs) < state.settings.adoption_pairs and not test.can_end_early:
        verdict += f"; {spent_budget_text(state, state.nearest_limit)}"
    return Decision(state.baseline, False, verdict, interval, pairs)


def _with_what_was_spent(state: RunState, reason: str) -> str:
    """Return the reason for not testing; if a limit ended the search too early, add the estimated need."""
    if failed := search_end.all_failed(state):
        return failed
    if state.spent is None or len(state.book.measured()) >= least_configs(state):
        return reason
    if len(state.book.measured()) == 1:
        reason = "the budget had no room to try a config"
    return f"{reason}; {spent_budget_text(state, state.spent)}"


def _why_none(state: RunState, prediction: Prediction, measured: Sequence[Config]) -> str:
    """Return the reason for not testing: no gain is expected, or the noise is too large to show one.

    The noise is too large if all pairs of the test could not show the least gain, given how much the baseline's
    windows differ, and the posterior does not rule that gain out.
    """
    baseline = next(trial for trial in state.book.levelled() if trial.config == state.baseline)
    times = [sample.typical_ms for sample in baseline.samples if sample.valid]
    pairs, sought = state.settings.adoption_pairs, f"{100 * state.policy.least_gain:g} %"
    if len(times) > 1 and _could_any_gain(state, prediction, measured):
        spread = stdev(map(math.log, times))
        least = math.expm1(_BOUND_STDS * spread * math.sqrt(2 / pairs))
        if least > state.policy.least_gain:
            state.ended = search_end.too_noisy(state)
            differ = f"differ, {min(times):.4g} to {max(times):.4g} ms a step"
            return (
                f"too noisy to tell: the baseline's own windows {differ}, so that {pairs} pairs show no gain below "
                f"{100 * least:.0f} %, and {sought} is sought"
            )
    return f"no configuration is expected to gain more than {sought}"


def _could_any_gain(state: RunState, prediction: Prediction, measured: Sequence[Config]) -> bool:
    """Return whether the posterior allows any config to beat the baseline by the least gain."""
    base = measured.index(state.baseline)
    gains = prediction.mean_log_step_ms[base] - prediction.mean_log_step_ms
    highest = gains + _BOUND_STDS * np.hypot(prediction.std, prediction.std[base])
    return bool(np.any(np.expm1(np.delete(highest, base)) >= state.policy.least_gain))
