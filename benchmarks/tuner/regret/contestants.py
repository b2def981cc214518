# SPDX-License-Identifier: Apache-2.0
"""Contestants: ringtune's whole policy, designers that spend every step on a search, and two that do not search.

A rival picks by its own model or its best sample, without a test. That leaves it more steps for the search than the
policy has, which keeps some for the adoption test.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.tuner.measured.contestants import MODULES, SAMPLERS, library_sampler, missing_modules
from ringtune.tuner import (
    DEFAULT_DESIGNER,
    Config,
    Designer,
    Phase,
    RunSettings,
    SearchSpace,
    SilentObserver,
    TuningRun,
    make_designer,
    open_log,
)
from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.designers.registry import LATE_MODULES
from ringtune.tuner.policy.measuring import Meter, Order
from ringtune.tuner.policy.settings import job_limits
from ringtune.tuner.policy.trials import BASELINE_ID, TrialBook
from ringtune.tuner.policy_numbers import POLICY
from ringtune.tuner.testing import coarse_grid

from .memoized import MemoizedDesigner
from .priors import WINDOW_STEPS, PriorsOf, cost_model, earlier_job, falsehoods, nothing
from .problem import Problem
from .rivals.asked import AskedDesigner
from .rivals.bagua import BaguaDesigner
from .rivals.grid import GridDesigner
from .rivals.horovod import HorovodDesigner
from .rivals.skopt_hedge import SkoptHedgeDesigner
from .time_account import TimeAccount

BASELINE_EVERY = 10
"""Samples between two of the baseline: drift is no gain."""


@dataclass(frozen=True)
class Pick:
    """Choice of a rival at the end of its budget.

    Attributes:
        config: Its choice.
        slow_down: Fraction by which the steps of its search were longer than the baseline's, on average.
        later_cost: Share of the time after the first minute that the search cost.
        steps: Steps that it took; 0 where they are the budget.
        seconds: Time that it took; 0 where the budget is in steps.
    """

    config: Config
    slow_down: float = 0.0
    later_cost: float = 0.0
    steps: int = 0
    seconds: float = 0.0


Picks = Mapping[int, Pick]
"""Picks by budget, in steps."""
Rival = Callable[[Problem, Sequence[int], int], Picks]
"""Picks for a problem, at each budget, from a seed."""
SettingsOf = Callable[[int, int], RunSettings]
"""Settings of a run, from a budget of steps and a seed."""


def ten_step_windows(budget: int, seed: int) -> RunSettings:
    """Return a budget of steps without warmup, which simulated jobs do not need, and windows of at most ten steps.

    In a job that is AUTOTUNE_MAX_STEPS, AUTOTUNE_WARMUP_STEPS=0 and AUTOTUNE_STEPS_PER_SAMPLE=10.
    """
    return RunSettings(max_samples=budget, max_steps=budget, warmup_steps=0, steps_per_sample=WINDOW_STEPS, seed=seed)


def steps_alone(budget: int, seed: int) -> RunSettings:
    """Return the settings of a job with AUTOTUNE_MAX_STEPS alone."""
    return RunSettings(max_samples=None, max_steps=budget, seed=seed)


def nothing_set(budget: int, seed: int) -> RunSettings:
    """Return the settings of a job with AUTOTUNE=1 alone; the budget does not matter."""
    del budget
    return RunSettings(**job_limits(None, None, None)._asdict(), seed=seed)


def twenty_samples(budget: int, seed: int) -> RunSettings:
    """Return the settings of AUTOTUNE_MAX_SAMPLES=20, the default before there was a budget of time."""
    del budget
    return RunSettings(max_samples=20, seed=seed)


def policy(priors_of: PriorsOf, settings_of: SettingsOf = ten_step_windows, designer: str = DEFAULT_DESIGNER) -> Rival:
    """Return the whole policy: baseline, search with early cuts, adoption test, within the budget.

    Args:
        priors_of: Priors of a problem, for designers that can use them.
        settings_of: Settings of a run.
        designer: Name of the designer; with another than our own, the decision is ours and the search is not.
    """

    def pick(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
        picks = {}
        space, priors = problem.target(seed).space(), priors_of(problem, seed)
        chosen: Designer = make_designer(designer, space, seed, priors)
        if isinstance(chosen, GaussianProcessDesigner):
            chosen = MemoizedDesigner(chosen)
        for budget in budgets:
            target = TimeAccount(problem.target(seed), problem.baseline_ms)
            settings = settings_of(budget, seed)
            result = TuningRun(target, chosen, settings, open_log(None), SilentObserver(), clock=target.clock).run()
            picks[budget] = Pick(result.config, target.slow_down, target.later_cost, result.steps, result.seconds)
        return picks

    return pick


def searcher(designer: str, priors_of: PriorsOf = nothing) -> Rival:
    """Return a designer that spends all steps on its search, without a test."""
    return _searching(lambda problem, space, seed: make_designer(designer, space, seed, priors_of(problem, seed)))


def rival_searcher(designer: Callable[[SearchSpace, int], Designer]) -> Rival:
    """Return a rival's designer that spends all steps on its search, without a test."""
    return _searching(lambda _, space, seed: designer(space, seed))


def _searching(make: Callable[[Problem, SearchSpace, int], Designer]) -> Rival:
    def pick(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
        target = TimeAccount(problem.target(seed), problem.baseline_ms)
        return _Search(target, make(problem, target.space(), seed)).run(budgets)

    return pick


def library_searcher(name: str) -> Rival:
    """Return a sampler of another library that spends all steps on its search, without a test."""
    return rival_searcher(lambda space, seed: AskedDesigner(library_sampler(name), space, seed))


def without_noise(rival: Rival) -> Rival:
    """Return a rival on a machine without noise: its regret there is the search's alone."""
    return lambda problem, budgets, seed: rival(problem.without_noise, budgets, seed)


def always_baseline(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
    """Pick the baseline."""
    del seed
    return dict.fromkeys(budgets, Pick(problem.baseline))


def model_optimum(problem: Problem, budgets: Sequence[int], seed: int) -> Picks:
    """Pick the cost model's optimum, calibrated by one sample of the baseline; the baseline without a model."""
    model = problem.cost_model(seed)
    if model is None:
        return always_baseline(problem, budgets, seed)
    target = TimeAccount(problem.target(seed), problem.baseline_ms)
    search = _Search(target, make_designer("random", target.space(), seed))
    search.measure(target.baseline())
    candidates = coarse_grid(target.space())
    expected = model.log_step_ms(candidates, search.book.trials())
    return dict.fromkeys(budgets, Pick(candidates[int(np.argmin(expected))]))


OPTUNA = {"optuna gp": "optuna:gp", "optuna tpe": "optuna:tpe", "optuna cma-es": "optuna:cmaes"}
"""Rivals with a sampler of Optuna, and the names of their designers."""
TESTED = ", cut and tested"
"""End of the name of a rival with ringtune's cuts and decision; none of them can take its prior."""

RIVALS: Mapping[str, Rival] = {
    "ringtune": policy(cost_model),
    "ringtune, steps alone": policy(cost_model, steps_alone),
    "ringtune, nothing set": policy(cost_model, nothing_set),
    "ringtune, 20 samples": policy(cost_model, twenty_samples),
    "ringtune, warm": policy(earlier_job),
    "ringtune, no prior": policy(nothing),
    "ringtune, no noise": without_noise(policy(cost_model)),
    "ringtune, warm, no noise": without_noise(policy(earlier_job)),
    "ringtune, false prior": policy(falsehoods),
    "gp, untested": searcher("gp", cost_model),
    "skopt": searcher("skopt"),
    "skopt gp_hedge": rival_searcher(SkoptHedgeDesigner),
    **{name: searcher(designer) for name, designer in OPTUNA.items()},
    **{name: library_searcher(name) for name in SAMPLERS},
    "random": searcher("random"),
    **{f"{name}{TESTED}": policy(nothing, designer=designer) for name, designer in OPTUNA.items()},
    f"skopt{TESTED}": policy(nothing, designer="skopt"),
    f"random{TESTED}": policy(nothing, designer="random"),
    "grid": rival_searcher(GridDesigner),
    "horovod": rival_searcher(HorovodDesigner),
    "bagua": rival_searcher(BaguaDesigner),
    "cost model alone": model_optimum,
    "baseline": always_baseline,
}


NEEDS: Mapping[str, tuple[str, ...]] = {
    **{name: LATE_MODULES[designer] for name, designer in OPTUNA.items()},
    **{f"{name}{TESTED}": LATE_MODULES[designer] for name, designer in OPTUNA.items()},
    **MODULES,
}
"""Modules of other libraries that rivals need."""


def missing_of(rival: str) -> tuple[str, ...]:
    """Return the modules that a rival needs and that are not installed."""
    return missing_modules(NEEDS.get(rival, ()))


class _Search:
    """A designer at work, without a policy."""

    def __init__(self, target: TimeAccount, designer: Designer) -> None:
        self._target = target
        self._designer = designer
        self._meter = Meter(target, lambda _: None)
        self.book = TrialBook(target.baseline())

    def run(self, budgets: Sequence[int]) -> Picks:
        """Search to the largest budget; note the pick whenever one is spent."""
        picks: dict[int, Pick] = {}
        self.measure(self._target.baseline())
        for budget in sorted(budgets):
            while self._meter.steps + WINDOW_STEPS + POLICY.settle_steps <= budget:
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
        slow_down, later_cost = self._target.slow_down, self._target.later_cost
        if not measured:
            return Pick(self._target.baseline(), slow_down, later_cost)
        self._designer.update(self.book.trials())
        means = self._designer.predict(measured).mean_log_step_ms
        return Pick(measured[int(np.argmin(means))], slow_down, later_cost)
