# SPDX-License-Identifier: Apache-2.0
"""Who is compared: ringtune's whole policy, designers that spend every step on a search, and two that do not search.

A rival picks as it does at home: it believes its own model or its best sample, and tests nothing. That leaves it more
steps to search with than the policy has, which keeps some for the adoption test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ringtune.tuner import (
    Config,
    Designer,
    Phase,
    RunSettings,
    SilentObserver,
    TuningRun,
    make_designer,
    open_log,
)
from ringtune.tuner.measuring import SETTLE_STEPS, Meter, Order
from ringtune.tuner.simulator import SimulatedTarget
from ringtune.tuner.testing import coarse_grid
from ringtune.tuner.trials import BASELINE_ID, TrialBook

from .knowledge import WINDOW_STEPS, PriorsOf, cost_model, earlier_job, falsehoods, nothing
from .problem import Problem

BASELINE_EVERY = 10
"""Rivals measure the baseline once, and again before every tenth sample, so that all tell drift from a gain."""


@dataclass(frozen=True)
class Pick:
    """What a rival would run from now on.

    Attributes:
        config: Its choice.
        slow_down: By which fraction the steps of its search were longer than the baseline's, on average.
    """

    config: Config
    slow_down: float


Picks = Mapping[int, Pick]
"""By budget, in steps."""
Rival = Callable[[Problem, Sequence[int], int], Picks]
"""Picks for a problem, at each budget, from a seed."""


def policy(designer: str, priors_of: PriorsOf) -> Rival:
    """Return the whole policy: baseline, search, adoption test, within the budget."""

    def pick(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
        picks = {}
        priors = priors_of(problem, seed)
        for budget in budgets:
            target = problem.scenario.target(seed)
            settings = RunSettings(
                max_samples=budget, max_steps=budget, warmup_steps=0, steps_per_sample=WINDOW_STEPS, seed=seed
            )
            chosen = make_designer(designer, target.space(), seed, priors)
            result = TuningRun(target, chosen, settings, open_log(None), SilentObserver(), clock=target.clock).run()
            picks[budget] = Pick(result.config, _slow_down(problem, target, result.steps))
        return picks

    return pick


def searcher(designer: str, priors_of: PriorsOf = nothing) -> Rival:
    """Return a designer that spends all steps on its search and believes what it finds."""

    def pick(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
        target = problem.scenario.target(seed)
        chosen = make_designer(designer, target.space(), seed, priors_of(problem, seed))
        return _Search(problem, target, chosen).run(budgets)

    return pick


def without_noise(rival: Rival) -> Rival:
    """Return a rival on a machine without noise: what it loses there the search loses, not the noise."""
    return lambda problem, budgets, seed: rival(problem.without_noise, budgets, seed)


def always_baseline(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
    """Change nothing."""
    del seed
    return dict.fromkeys(budgets, Pick(problem.truth.baseline(), 0.0))


def model_optimum(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
    """Believe the cost model, without a sample but those of the baseline that calibrate it."""
    target = problem.scenario.target(seed)
    search = _Search(problem, target, make_designer("random", target.space(), seed))
    search.measure(target.baseline())
    candidates = coarse_grid(target.space())
    expected = problem.cost_model(seed).log_step_ms(candidates, search.book.trials())
    return dict.fromkeys(budgets, Pick(candidates[int(np.argmin(expected))], 0.0))


RIVALS: Mapping[str, Rival] = {
    "ringtune": policy("gp", cost_model),
    "ringtune, warm": policy("gp", earlier_job),
    "ringtune, no prior": policy("gp", nothing),
    "ringtune, no noise": without_noise(policy("gp", cost_model)),
    "ringtune, false prior": policy("gp", falsehoods),
    "gp, untested": searcher("gp", cost_model),
    "skopt": searcher("skopt"),
    "random": searcher("random"),
    "grid": searcher("grid"),
    "horovod": searcher("horovod"),
    "bagua": searcher("bagua"),
    "cost model alone": model_optimum,
    "baseline": always_baseline,
}


class _Search:
    """A designer at work, without a policy."""

    def __init__(self, problem: Problem, target: SimulatedTarget, designer: Designer) -> None:
        self._problem = problem
        self._target = target
        self._designer = designer
        self._meter = Meter(target, lambda _: None)
        self.book = TrialBook(target.baseline())

    def run(self, budgets: Sequence[int]) -> Picks:
        """Search to the largest budget; note the pick whenever one is spent."""
        picks: dict[int, Pick] = {}
        self.measure(self._target.baseline())
        for budget in sorted(budgets):
            while self._meter.steps + WINDOW_STEPS + SETTLE_STEPS <= budget:
                self._advance()
            picks[budget] = self._pick()
        return picks

    def measure(self, config: Config) -> None:
        """Take a sample."""
        trial_id = self.book.id_of(config)
        phase = Phase.BASELINE if trial_id == BASELINE_ID else Phase.SEARCH
        self.book.add(self._meter.measure(Order(config, trial_id, phase, WINDOW_STEPS), repeats=0))

    def _advance(self) -> None:
        samples = sum(len(trial.samples) for trial in self.book.trials())
        if samples % BASELINE_EVERY == 0:
            self.measure(self._target.baseline())
            return
        self._designer.update(self.book.trials())
        self.measure(self._designer.suggest().config)

    def _pick(self) -> Pick:
        measured = self.book.measured()
        slow_down = _slow_down(self._problem, self._target, self._meter.steps)
        if not measured:
            return Pick(self._target.baseline(), slow_down)
        self._designer.update(self.book.trials())
        means = self._designer.predict(measured).mean_log_step_ms
        return Pick(measured[int(np.argmin(means))], slow_down)


def _slow_down(problem: Problem, target: SimulatedTarget, steps: int) -> float:
    """Return how much longer the steps took than as many of the baseline's without noise."""
    baseline_s = steps * problem.truth.step_ms(problem.truth.baseline()) * 1e-3
    return target.now_s / baseline_s - 1.0 if steps else 0.0
