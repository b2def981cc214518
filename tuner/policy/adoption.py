# SPDX-License-Identifier: Apache-2.0
"""Adoption: fresh interleaved pairs of baseline and challenger decide, never the best score seen."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, stdev

import numpy as np

from ringtune.tuner.designers.base import Prediction
from ringtune.tuner.sample import Phase, Sample
from ringtune.tuner.space.config import Config
from ringtune.tuner.space.readable import readable_percent
from ringtune.tuner.statistics.pair_noise import MIN_PAIRS
from ringtune.tuner.statistics.paired_test import CI_LEVEL, ERROR, Interval, Pair, PairedTest
from ringtune.tuner.statistics.step_noise import Scatter

from .budget import adoption_steps, pairs_needed
from .designer_watchdog import GuardedDesigner
from .early_end import least_configs, spent_budget_text
from .measuring import SETTLE_STEPS, Order
from .phases import RunState
from .stopping import MIN_EXPECTED_GAIN

CONFIRMATIONS = 3
"""So often what would be tested is measured once more first, while it owes its place to a single window: of many that
noise blurs the luckiest leads, and the test would only show that it beats the baseline."""
_BOUND_STDS = NormalDist().inv_cdf(1.0 - ERROR)
"""Standard errors by which a gain has to lie above zero, of many pairs."""
ATTEMPTS_PER_PAIR = 3
"""A pair with a void window is measured again; the test as a whole may take this many times its pairs."""


@dataclass(frozen=True)
class Decision:
    """What to run from now on, and why.

    Attributes:
        config: The config to apply.
        adopted: Whether it is the challenger.
        verdict: One line for people.
        interval: The measured speed-up, or None without a test.
        pairs: Those measured.
        is_complete: False when the job ended before there was anything to decide.
    """

    config: Config
    adopted: bool
    verdict: str
    interval: Interval | None = None
    pairs: tuple[Pair, ...] = ()
    is_complete: bool = True


def keep(state: RunState, reason: str) -> Decision:
    """Return the decision for the baseline without a test."""
    return Decision(state.baseline, adopted=False, verdict=f"keeping {state.settings.baseline_name}: {reason}")


def decide(state: RunState, guard: GuardedDesigner) -> Decision:
    """Choose the challenger by what the designer believes and test it, if it is expected to gain enough.

    Raises:
        DesignerFailed: If the designer cannot be used any more.
        TargetClosed: If the job is over.
    """
    challenger = _challenger(state, guard)
    for _ in range(CONFIRMATIONS):
        if challenger is None or not _is_worth_confirming(state, challenger):
            break
        state.journal.enter(Phase.ADOPTION, state.settings.adoption_pairs, config=challenger.config)
        order = Order(challenger.config, state.book.id_of(challenger.config), Phase.ADOPTION, state.steps)
        state.book.add(state.meter.measure(order))
        challenger = _challenger(state, guard)
    if challenger is None:
        return keep(state, _with_what_was_spent(state, _why_none(state, guard)))
    return compare(state, challenger.config, challenger.gain)


def _with_what_was_spent(state: RunState, reason: str) -> str:
    """Return why nothing is tested; where a limit ended the search before it could tell, with what it needed."""
    if state.spent is None or len(state.book.measured()) >= least_configs(state):
        return reason
    if len(state.book.measured()) == 1:
        reason = "the budget had no room to try a config"
    return f"{reason}; {spent_budget_text(state, state.spent)}"


def _why_none(state: RunState, guard: GuardedDesigner) -> str:
    """Say why nothing is tested: nothing is expected to gain enough, or noise hides what might.

    It hides a gain where all pairs of the test could not show it, beside windows that differ as the baseline's do, and
    what is unknown of a config leaves room for it.
    """
    times = [sample.typical_ms for sample in state.book.valid_samples(state.baseline)]
    pairs, sought = state.settings.adoption_pairs, f"{100 * MIN_EXPECTED_GAIN:g} %"
    if len(times) > 1 and _could_any_gain(state, guard):
        spread = stdev(map(math.log, times))
        least = math.expm1(_BOUND_STDS * spread * math.sqrt(2 / pairs))
        if least > MIN_EXPECTED_GAIN:
            differ = f"differ, {min(times):.4g} to {max(times):.4g} ms a step"
            return (
                f"too noisy to tell: the baseline's own windows {differ}, so that {pairs} pairs show no gain below "
                f"{100 * least:.0f} %, and {sought} is sought"
            )
    return f"no configuration is expected to gain more than {sought}"


def _could_any_gain(state: RunState, guard: GuardedDesigner) -> bool:
    """Tell whether any config may be better than the baseline by what a challenger must gain."""
    measured = state.book.measured()
    prediction = guard.predict(state.book.trials(), measured)
    base = measured.index(state.baseline)
    gains = prediction.mean_log_step_ms[base] - prediction.mean_log_step_ms
    highest = gains + _BOUND_STDS * np.hypot(prediction.std, prediction.std[base])
    return bool(np.any(np.expm1(np.delete(highest, base)) >= MIN_EXPECTED_GAIN))


@dataclass(frozen=True)
class _Challenger:
    """What would be tested.

    Attributes:
        config: With the best posterior mean.
        gain: Expected, as ln(baseline / config).
    """

    config: Config
    gain: float


def _challenger(state: RunState, guard: GuardedDesigner) -> _Challenger | None:
    """Return the best config by what the designer believes; None where it is not expected to gain enough."""
    measured = state.book.measured()
    state.meter.switch(state.interim)
    prediction = guard.predict(state.book.trials(), measured)
    best = _best(prediction, measured, state.adopted_before)
    baseline_mean = prediction.mean_log_step_ms[measured.index(state.baseline)]
    gain = float(baseline_mean - prediction.mean_log_step_ms[best])
    return None if math.expm1(gain) < MIN_EXPECTED_GAIN else _Challenger(measured[best], gain)


def _best(prediction: Prediction, measured: Sequence[Config], adopted_before: Config | None) -> int:
    """Return which config has the best posterior mean, or that which was adopted before where none is surely better.

    That one has won a search and a test already.
    """
    means, stds = prediction.mean_log_step_ms, prediction.std
    best = int(np.argmin(means))
    if adopted_before not in measured:
        return best
    before = measured.index(adopted_before)
    return before if means[before] - means[best] <= math.hypot(stds[before], stds[best]) else best


def _is_worth_confirming(state: RunState, challenger: _Challenger) -> bool:
    """Tell whether it owes its place to a single window, and the budget has room for another beside the pairs.

    That is room for as many pairs as should show the gain, and for one more than the fewest if that is not enough:
    less is asked of three pairs than of two. What is kept for a void window is no room.
    """
    is_sure = challenger.config == state.adopted_before or len(state.book.times_of(challenger.config)) > 1
    if is_sure or state.steps_left - state.window_steps < state.reserved_steps:
        return False
    plan = state.adoption_plan(challenger.gain, spent_before=state.window_steps)
    return plan.pairs >= min(pairs_needed(challenger.gain, plan.noise), MIN_PAIRS + 1)


def compare(state: RunState, challenger: Config, gain: float = 0.0) -> Decision:
    """Measure pair after pair until the answer is plain, or the pairs or the budget of steps are spent.

    Args:
        state: Of the run.
        challenger: What is tested against the baseline.
        gain: Expected of it, as ln(baseline / challenger): where steps are counted, windows are made for it.

    Raises:
        TargetClosed: If the job is over.
        TensorSetChanged: If its gradients have changed.
    """
    total, plan = state.settings.adoption_pairs, state.adoption_plan(gain)
    steps = plan.window_steps
    state.journal.enter(Phase.ADOPTION, total, config=challenger)
    test, scatter = PairedTest(plan.noise), Scatter.of(state.book.trials())
    state.test, state.challenger = test, challenger
    earlier = {config: state.book.valid_samples(config) for config in (state.baseline, challenger)}
    fresh: dict[Config, Sample] = {}
    for _ in range(ATTEMPTS_PER_PAIR * total):
        order = (challenger, state.baseline) if len(test.pairs) % 2 else (state.baseline, challenger)
        is_in_force = state.meter.in_force == order[0]
        steps = _fitting_steps(state, steps, max(MIN_PAIRS - len(test.pairs), 0), is_in_force)
        if len(test.pairs) == total or test.is_plain or _is_out_of_steps(state, steps, is_in_force):
            break
        fresh = _measure_pair(state, order, steps)
        if len(fresh) == len(earlier):
            test.pairs.append(Pair.of(fresh[state.baseline], fresh[challenger], scatter))
            state.journal.measured()
            state.journal.measured()
            state.journal.advance()
            fresh = {}
    else:
        if len(test.pairs) < total:
            tested = f"only {len(test.pairs)} of {total} pairs"
            return keep(state, f"{tested} of the adoption test had valid windows")
    test.pairs = _mended(test, state.baseline, earlier, fresh, scatter)
    if len(test.pairs) < MIN_PAIRS:
        return keep(state, _why_too_few(state, len(test.pairs)))
    return _judge(state, challenger, test)


def _why_too_few(state: RunState, pairs: int) -> str:
    reason = f"{pairs} adoption pairs are too few for an interval, {MIN_PAIRS} are needed"
    return f"{reason}; {spent_budget_text(state, state.nearest_limit)}" if state.settings.counts_steps else reason


def _mended(
    test: PairedTest,
    baseline: Config,
    earlier: Mapping[Config, Sequence[Sample]],
    fresh: Mapping[Config, Sample],
    scatter: Scatter,
) -> list[Pair]:
    """Return the pairs, with the last one that is needed if void windows spoilt it and no steps are left for another.

    In place of a void window stands the config's last one before the test. Luck may have had a part in that, and the
    two are further apart than a pair's: the pair is added only if the gain is plain with it.

    Args:
        test: With its pairs.
        baseline: Of the two configs.
        earlier: Both configs' valid samples before the test.
        fresh: The spoilt pair's valid window, if there is one.
        scatter: Of the samples before the test.
    """
    samples = {config: of[-1] for config, of in earlier.items() if of} | dict(fresh)
    if len(test.pairs) >= MIN_PAIRS or len(samples) != len(earlier):
        return test.pairs
    (challenger,) = (config for config in samples if config != baseline)
    mending = Pair.of(samples[baseline], samples[challenger], scatter)
    mended = PairedTest(test.expected, [*test.pairs, mending])
    return mended.pairs if mended.is_plain else test.pairs


def _judge(state: RunState, challenger: Config, test: PairedTest) -> Decision:
    """Adopt only what is shown to be faster; where nothing is, the verdict names no gain."""
    interval, pairs = test.interval, tuple(test.pairs)
    bounds = f"{readable_percent(interval.low)} to {readable_percent(interval.high)}, {len(pairs)} pairs"
    if test.is_shown:
        if challenger == state.adopted_before:
            bounds += "; an earlier run of the same job has adopted it, too"
        verdict = f"adopted: {readable_percent(interval.speedup)} faster ({100 * CI_LEVEL:g} % interval {bounds})"
        return Decision(challenger, True, verdict, interval, pairs)
    verdict = (
        f"keeping {state.settings.baseline_name}: the best candidate was not shown to be faster "
        f"({100 * CI_LEVEL:g} % interval of its speed-up {bounds})"
    )
    if state.settings.counts_steps and len(pairs) < state.settings.adoption_pairs and not test.is_plain:
        verdict += f"; {spent_budget_text(state, state.nearest_limit)}"
    return Decision(state.baseline, False, verdict, interval, pairs)


def _is_out_of_steps(state: RunState, steps: int, is_in_force: bool) -> bool:
    """Tell whether the budget has no room for a pair."""
    return state.steps_left < _steps_of(1, steps, is_in_force)


def _fitting_steps(state: RunState, steps: int, pairs: int, is_in_force: bool) -> int:
    """Return how long the windows of so many pairs can be, where void ones took steps: so long, or a little less."""
    shortest = min(state.shortest_pair_window_steps, steps)
    fits = (n for n in range(steps, shortest, -1) if _steps_of(pairs, n, is_in_force) <= state.steps_left)
    return next(fits, shortest)


def _steps_of(pairs: int, window_steps: int, is_in_force: bool) -> int:
    """Return what pairs take of the budget: neighbouring ones share a config, and the first one's may be in force."""
    return adoption_steps(pairs, window_steps) - SETTLE_STEPS * is_in_force


def _measure_pair(state: RunState, configs: Sequence[Config], steps: int) -> dict[Config, Sample]:
    """Measure both configs, one after the other, and return the valid windows.

    Where a window is void the whole pair is, and the other window is spared, if steps are left for another pair.
    """
    samples: dict[Config, Sample] = {}
    for config in configs:
        order = Order(config, state.book.id_of(config), Phase.ADOPTION, steps)
        sample = state.meter.measure(order, repeats=0)
        if sample.valid:
            state.book.add(sample)
            samples[config] = sample
        elif not _is_out_of_steps(state, steps, is_in_force=True):
            break
    return samples
