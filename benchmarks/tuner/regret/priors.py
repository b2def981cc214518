# SPDX-License-Identifier: Apache-2.0
"""Priors of a tuner before its first sample: none, the cost model, an earlier job, or falsehoods."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ringtune.tuner import (
    Config,
    KeepingLog,
    Prior,
    RunSettings,
    SilentObserver,
    Trial,
    TuningRun,
    earlier_studies,
    make_designer,
)
from ringtune.tuner.logs.reader import RunLog

from .problem import Problem

PriorsOf = Callable[[Problem, int], Sequence[Prior]]
"""Function from a problem and a seed to priors."""
EARLIER_SEED = 1_000_000
"""Difference of an earlier job's seed."""
KEY: Mapping[str, object] = {"model": "m", "hardware": "h", "layout": [1], "target": "simulated", "surface_version": 1}
"""Key of earlier and present studies, which ask the same question."""
WINDOW_STEPS = 10
"""Steps of a sample."""


def nothing(problem: Problem, seed: int) -> Sequence[Prior]:
    """Return no prior."""
    del problem, seed
    return ()


def cost_model(problem: Problem, seed: int) -> Sequence[Prior]:
    """Return the cost model, as every job of the engine has it; empty where there is none."""
    model = problem.cost_model(seed)
    return () if model is None else (model,)


def earlier_job(problem: Problem, seed: int) -> Sequence[Prior]:
    """Return the study of an earlier job of the same question, and the cost model."""
    target = problem.target(seed + EARLIER_SEED)
    log = KeepingLog()
    settings = RunSettings(key=KEY, warmup_steps=0, steps_per_sample=WINDOW_STEPS, seed=seed + EARLIER_SEED)
    designer = make_designer("gp", target.space(), settings.seed, cost_model(problem, settings.seed))
    TuningRun(target, designer, settings, log, SilentObserver(), clock=target.clock).run()
    run = RunLog(settings.run_id)
    for record in log.finished_run():
        run.add(record)
    models = cost_model(problem, seed)
    return (*earlier_studies([run], KEY, target.space(), seed, models), *models)


def falsehoods(problem: Problem, seed: int) -> Sequence[Prior]:
    """Return the opposite of the cost model."""
    return tuple(Opposite(prior) for prior in cost_model(problem, seed))


@dataclass(frozen=True)
class Opposite:
    """Prior with another's expectation reversed."""

    prior: Prior
    name = "opposite"

    def log_step_ms(self, configs: Sequence[Config], trials: Sequence[Trial]) -> NDArray[np.float64]:
        """Return the other's expectation with the opposite sign."""
        return -self.prior.log_step_ms(configs, trials)
