# SPDX-License-Identifier: Apache-2.0
"""The adoption test: fresh interleaved pairs of baseline and challenger decide, never the best score seen.

| symbol | meaning |
|---|---|
| d | ln(median default step / median challenger step) of one pair; above zero where the challenger is faster |
| n | number of pairs |
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

import numpy as np

from .config import Config
from .guard import GuardedDesigner
from .measuring import MIN_STEPS, Order
from .phases import RunState
from .sample import Phase
from .student_t import student_t_quantile
from .trials import BASELINE_ID

MIN_EXPECTED_GAIN = 0.01
"""A challenger expected to gain less is not worth the steps of a test."""
CONFIDENCE = 0.95
FUTILITY_PAIRS = 6
"""From so many pairs on, the test ends when even the upper bound is below zero; it never adopts early."""
ATTEMPTS_PER_PAIR = 3
"""A pair with a void window is measured again; the test as a whole may take this many times its pairs."""
MIN_PAIRS = 2
"""An interval needs two pairs."""

Pair = tuple[float, float]


@dataclass(frozen=True)
class Interval:
    """A speed-up as a fraction, with its two-sided 95 % interval."""

    speedup: float
    low: float
    high: float


@dataclass(frozen=True)
class Decision:
    """What to run from now on, and why.

    Attributes:
        config: The config to apply.
        adopted: Whether it is the challenger.
        verdict: One line for people.
        interval: The measured speed-up, or None without a test.
        pairs: Median step times (baseline, challenger) of the pairs, milliseconds.
        is_complete: False when the job ended before there was anything to decide.
    """

    config: Config
    adopted: bool
    verdict: str
    interval: Interval | None = None
    pairs: tuple[Pair, ...] = ()
    is_complete: bool = True


def keep(baseline: Config, reason: str) -> Decision:
    """Return the decision for the baseline without a test."""
    return Decision(baseline, adopted=False, verdict=f"keeping default: {reason}")


def speedup_interval(pairs: Sequence[Pair]) -> Interval:
    """Return exp(mean d) - 1 with the two-sided 95 % interval of Student's t over the pairs.

    Args:
        pairs: Median step times (baseline, challenger), at least two pairs, above zero, any one unit.
    """
    d = [math.log(baseline / challenger) for baseline, challenger in pairs]
    margin = student_t_quantile(len(d) - 1, 0.5 + CONFIDENCE / 2) * stdev(d) / math.sqrt(len(d))
    mean = fmean(d)
    return Interval(math.expm1(mean), math.expm1(mean - margin), math.expm1(mean + margin))


def decide(state: RunState, guard: GuardedDesigner) -> Decision:
    """Choose the challenger by posterior mean and test it, if it is expected to gain enough.

    Raises:
        DesignerFailed: If the designer cannot be used any more.
        TargetClosed: If the job is over.
    """
    measured = state.book.measured()
    state.meter.switch(state.incumbent)
    prediction = guard.predict(state.book.trials(), measured)
    best = int(np.argmin(prediction.mean_log_step_ms))
    baseline_mean = prediction.mean_log_step_ms[measured.index(state.baseline)]
    if math.expm1(baseline_mean - prediction.mean_log_step_ms[best]) < MIN_EXPECTED_GAIN:
        return keep(state.baseline, f"no configuration is expected to gain more than {100 * MIN_EXPECTED_GAIN:g} %")
    return _test(state, measured[best])


def _test(state: RunState, challenger: Config) -> Decision:
    total = state.settings.adoption_pairs
    state.journal.enter(Phase.ADOPTION, total, config=challenger)
    pairs: list[Pair] = []
    for _ in range(ATTEMPTS_PER_PAIR * total):
        if len(pairs) == total or (len(pairs) >= FUTILITY_PAIRS and speedup_interval(pairs).high < 0):
            break
        pair = _measure_pair(state, challenger, is_baseline_first=len(pairs) % 2 == 0)
        if pair is not None:
            pairs.append(pair)
            state.journal.advance()
    else:
        if len(pairs) < total:
            return keep(state.baseline, f"only {len(pairs)} of {total} pairs of the adoption test had valid windows")
    if len(pairs) < MIN_PAIRS:
        return keep(state.baseline, f"{len(pairs)} adoption pairs are too few for an interval, {MIN_PAIRS} are needed")
    return _judge(state.baseline, challenger, tuple(pairs))


def _judge(baseline: Config, challenger: Config, pairs: tuple[Pair, ...]) -> Decision:
    """Adopt only when the lower bound of the speed-up is above zero."""
    interval = speedup_interval(pairs)
    bounds = f"95 % interval {_percent(interval.low)} to {_percent(interval.high)}, {len(pairs)} pairs"
    speedup = _percent(interval.speedup)
    if interval.low > 0:
        return Decision(challenger, True, f"adopted: {speedup} faster ({bounds})", interval, pairs)
    verdict = f"keeping default: the best candidate was not shown to be faster ({speedup}, {bounds})"
    return Decision(baseline, False, verdict, interval, pairs)


def _percent(fraction: float) -> str:
    return f"{100 * fraction:+.1f} %"


def _measure_pair(state: RunState, challenger: Config, *, is_baseline_first: bool) -> Pair | None:
    """Measure both configs, one after the other; None when a window is void, for then the whole pair is."""
    steps = state.settings.steps_per_sample or max(state.steps // 2, MIN_STEPS)
    baseline_order = Order(state.baseline, BASELINE_ID, Phase.ADOPTION, steps)
    challenger_order = Order(challenger, state.book.id_of(challenger), Phase.ADOPTION, steps)
    orders = (baseline_order, challenger_order) if is_baseline_first else (challenger_order, baseline_order)
    medians: dict[Config, float] = {}
    for order in orders:
        sample = state.meter.measure(order, repeats=0)
        if not sample.valid:
            return None
        medians[order.config] = sample.step_times.median
    state.journal.measured()
    state.journal.measured()
    return medians[state.baseline], medians[challenger]
