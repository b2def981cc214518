# SPDX-License-Identifier: Apache-2.0
"""Horovod's scheme on a live engine: it searches for a number of steps, and takes its best sample without a test.

It is restated in `benchmarks.tuner.regret.rivals.horovod`.
"""

from dataclasses import dataclass

import numpy as np

from benchmarks.tuner.regret.rivals.horovod import HorovodDesigner
from ringtune.tuner import Config, Phase, Target
from ringtune.tuner.policy.measuring import Meter, Order
from ringtune.tuner.policy.trials import BASELINE_ID, TrialBook
from ringtune.tuner.policy_numbers import POLICY

WINDOW_STEPS = 10


@dataclass(frozen=True)
class Searched:
    """Choice of a search.

    Attributes:
        config: The config that it takes.
        steps: Steps that it took.
        cost_s: Time lost to slower configs, against the baseline; below zero where they were faster.
    """

    config: Config
    steps: int
    cost_s: float


def search_like_horovod(target: Target, seed: int, steps: int) -> Searched:
    """Search for so many steps.

    Raises:
        TargetClosed: If the job is over.
    """
    baseline = target.baseline()
    designer = HorovodDesigner(target.space(), seed)
    meter, book = Meter(target, lambda _: None), TrialBook(baseline)
    book.add(meter.measure(Order(baseline, BASELINE_ID, Phase.BASELINE, WINDOW_STEPS)))
    while meter.steps + WINDOW_STEPS + POLICY.settle_steps <= steps:
        designer.update(book.trials())
        config = target.space().validate(designer.suggest().config)
        book.add(meter.measure(Order(config, book.id_of(config), Phase.SEARCH, WINDOW_STEPS)))
    measured = book.measured()
    designer.update(book.trials())
    best = measured[int(np.argmin(designer.predict(measured).mean_log_step_ms))] if measured else baseline
    times = book.times_of(baseline)
    cost_s = meter.cost_s(baseline, float(np.median([t.median for t in times]))) if times else 0.0
    return Searched(best, meter.steps, cost_s)
