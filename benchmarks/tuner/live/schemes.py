# SPDX-License-Identifier: Apache-2.0
"""Two schemes that tune a live target, and their gains, measured afterwards in the same job.

Horovod's is restated in `benchmarks.tuner.regret.rivals.horovod`: it searches for a number of steps, takes its best
single sample without a test. On DDP it tunes the size of buckets, which is Horovod's fusion threshold there.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.tuner.regret.rivals.horovod import HorovodDesigner
from ringtune.tuner import (
    Config,
    Designer,
    NumberParameter,
    Phase,
    Prediction,
    Prior,
    RunSettings,
    SearchSpace,
    SilentObserver,
    Suggestion,
    Target,
    Trial,
    TuningRun,
    make_designer,
    open_log,
)
from ringtune.tuner.policy.measuring import Meter, Order
from ringtune.tuner.policy.trials import BASELINE_ID, TrialBook
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.space.parameters import KIB, MIB
from ringtune.tuner.statistics.paired_test import Pair, speedup_interval

RINGTUNE, HOROVOD = "ringtune", "horovod"
SCHEMES = (RINGTUNE, HOROVOD)
CAP = "bucket_cap_mb"
PAIRS = 10
"""Pairs of windows, after tuning, that measure the gain."""
WINDOW_STEPS = 10
"""Steps of a window of Horovod's scheme and of the pairs."""


@dataclass(frozen=True)
class SchemeOutcome:
    """Outcome of a scheme.

    Attributes:
        config: The config that runs from now on.
        is_changed: Whether it is another one than the baseline.
        steps: Steps that the scheme took.
        seconds: Their duration, with the steps while it thought.
        cost_s: Time lost to configs that were tried, against the baseline; below zero where they were faster.
        speedup: Fraction by which the config is faster, measured afterwards.
        low: Lower bound of the speed-up's 95 % interval.
        high: Upper bound.
        payback_steps: Steps after which the cost is won back; None without a gain.
        baseline_ms: The baseline's step, milliseconds.
    """

    config: dict[str, Any]
    is_changed: bool
    steps: int
    seconds: float
    cost_s: float
    speedup: float
    low: float
    high: float
    payback_steps: int | None
    baseline_ms: float

    def to_json(self) -> dict[str, Any]:
        """Return a plain dictionary."""
        return asdict(self)


def conduct(target: Target, scheme: str, priors: Sequence[Prior], seed: int, steps: int) -> SchemeOutcome:
    """Tune a live target, then measure the gain.

    Args:
        target: The job.
        scheme: One of SCHEMES.
        priors: Priors that ringtune has beforehand.
        seed: Decides every random choice.
        steps: Budget of Horovod's scheme; ringtune has its own.

    Raises:
        TargetClosed: If the job is over.
    """
    begin_s = time.monotonic()
    if scheme == RINGTUNE:
        designer = make_designer("gp", target.space(), seed, priors)
        result = TuningRun(target, designer, RunSettings(seed=seed), open_log(None), SilentObserver()).run()
        config, taken, cost_s = result.config, result.steps, result.cost_s
    else:
        config, taken, cost_s = _search_like_horovod(target, seed, steps)
    seconds = time.monotonic() - begin_s
    pairs = _measured_pairs(target, config)
    interval = speedup_interval(pairs, confidence=0.95)
    baseline_ms = float(np.median([pair.baseline_ms for pair in pairs]))
    gain_s = baseline_ms * 1e-3 * (1.0 - 1.0 / (1.0 + interval.speedup))
    payback = round(max(cost_s / gain_s, 0.0)) if config != target.baseline() and gain_s > 0 else None
    return SchemeOutcome(
        config.to_json(),
        config != target.baseline(),
        taken,
        round(seconds, 2),
        round(cost_s, 3),
        interval.speedup,
        interval.low,
        interval.high,
        payback,
        baseline_ms,
    )


class BucketDesigner:
    """A designer of `fusion_bytes` where DDP's `bucket_cap_mb` is tuned; other knobs keep their defaults."""

    name = HOROVOD

    def __init__(self, space: SearchSpace, seed: int) -> None:
        """Stand before Horovod's designer."""
        (cap,) = (p for p in space.parameters if isinstance(p, NumberParameter) and p.name == CAP)
        self._space = space
        self._cap = cap
        low, high = max(int(cap.low * MIB), KIB), int(cap.high * MIB)
        fusion = NumberParameter("fusion_bytes", low, high, int(float(cap.default) * MIB), scale="log2", step=KIB)
        self._inner: Designer = HorovodDesigner(SearchSpace([fusion], {}), seed)

    def update(self, trials: Sequence[Trial]) -> None:
        """Take in all trials, translated."""
        self._inner.update([Trial(t.trial_id, self._fusion(t.config), t.samples) for t in trials])

    def suggest(self) -> Suggestion:
        """Return Horovod's suggestion, translated."""
        fusion = self._inner.suggest().config["fusion_bytes"]
        return Suggestion(self._space.default().replace({CAP: self._cap.nearest(float(fusion) / MIB)}))

    def predict(self, configs: Sequence[Config]) -> Prediction:
        """Return each config's best single sample."""
        return self._inner.predict([self._fusion(config) for config in configs])

    def _fusion(self, config: Config) -> Config:
        return Config({"fusion_bytes": round(float(config[CAP]) * MIB / KIB) * KIB})


def _search_like_horovod(target: Target, seed: int, steps: int) -> tuple[Config, int, float]:
    """Return Horovod's choice, its steps, and their cost in seconds."""
    space, baseline = target.space(), target.baseline()
    has_buckets = any(parameter.name == CAP for parameter in space.parameters)
    designer: Designer = BucketDesigner(space, seed) if has_buckets else HorovodDesigner(space, seed)
    meter, book = Meter(target, lambda _: None), TrialBook(baseline)
    book.add(meter.measure(Order(baseline, BASELINE_ID, Phase.BASELINE, WINDOW_STEPS)))
    while meter.steps + WINDOW_STEPS + POLICY.settle_steps <= steps:
        designer.update(book.trials())
        config = space.validate(designer.suggest().config)
        book.add(meter.measure(Order(config, book.id_of(config), Phase.SEARCH, WINDOW_STEPS)))
    measured = book.measured()
    designer.update(book.trials())
    best = measured[int(np.argmin(designer.predict(measured).mean_log_step_ms))] if measured else baseline
    times = book.times_of(baseline)
    return best, meter.steps, meter.cost_s(baseline, float(np.median([t.median for t in times]))) if times else 0.0


def _measured_pairs(target: Target, config: Config) -> list[Pair]:
    """Return median step times of the baseline and a config, in pairs of windows next to each other, milliseconds."""
    meter, baseline = Meter(target, lambda _: None), target.baseline()
    pairs = []
    for number in range(PAIRS):
        order = (baseline, config) if number % 2 == 0 else (config, baseline)
        windows = [meter.measure(Order(each, BASELINE_ID, Phase.ADOPTION, WINDOW_STEPS)) for each in order]
        medians = [window.step_times.median for window in windows]
        pairs.append(Pair(*(medians if number % 2 == 0 else reversed(medians))))
    meter.switch(config)
    return pairs
