# SPDX-License-Identifier: Apache-2.0
"""Runs of one seed at several budgets: the designer is asked once, and its answers are replayed."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from benchmarks.tuner.regret.contestants import policy
from benchmarks.tuner.regret.memoized import MemoizedDesigner
from benchmarks.tuner.regret.priors import cost_model, earlier_job, nothing
from benchmarks.tuner.regret.problem import Problem
from benchmarks.tuner.regret.problems import Sources, all_problems
from ringtune.tuner import (
    Config,
    Prior,
    RunSettings,
    SilentObserver,
    Trial,
    TuningRun,
    default_config,
    open_log,
    search_space,
)
from ringtune.tuner.designers import JointDesigner, WarmStartedDesigner
from ringtune.tuner.designers.gp import GaussianProcessDesigner
from ringtune.tuner.testing import measured_trial

SPACE = search_space({}, default_config())
FIRST = [measured_trial(0, default_config(), [20.0, 20.1])]
SECOND = [measured_trial(0, default_config(), [20.0, 20.1, 20.2])]


def test_what_was_asked_before_is_answered_from_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other trials are another question; the designer hears of trials only when it must answer."""
    designer = GaussianProcessDesigner(SPACE, 0)
    heard: list[tuple[Trial, ...]] = []
    update = designer.update

    def listen(trials: Sequence[Trial]) -> None:
        heard.append(tuple(trials))
        update(trials)

    monkeypatch.setattr(designer, "update", listen)
    recalling = MemoizedDesigner(designer)

    recalling.update(FIRST)
    answers = [recalling.suggest(), recalling.suggest()]
    recalling.update(SECOND)
    recalling.update(FIRST)
    again = recalling.suggest()
    known = [tuple(FIRST)] * len(heard)
    recalling.update(SECOND)
    recalling.predict([default_config()])

    assert answers == [again, again]
    assert known == heard[:-1]
    assert tuple(SECOND) == heard[-1]


def test_budgets_together_pick_what_each_picks_alone() -> None:
    """On a noisy job, with the Gaussian process."""
    problem = all_problems(Sources())["manysmall_np2"]
    rival = policy(nothing)

    together = rival(problem, (60, 120), 3)

    assert {60: rival(problem, (60,), 3)[60], 120: rival(problem, (120,), 3)[120]} == together


def test_a_run_can_ask_all_that_it_asks_the_designer_itself() -> None:
    """Capabilities that only some designers have are passed on, for without them the outcome is another tuner's."""
    designer = GaussianProcessDesigner(SPACE, 0)
    recalling = MemoizedDesigner(designer)
    configs = [default_config(), default_config().replace({"cycle_ms": 5.0})]
    recalling.update(SECOND)

    assert isinstance(recalling, JointDesigner)
    assert isinstance(recalling, WarmStartedDesigner)
    recalled = recalling.covariance(configs)  # first: the designer hears of trials only when it must answer
    assert np.array_equal(designer.covariance(configs), recalled)


@pytest.mark.parametrize("priors_of", [cost_model, earlier_job])
def test_the_pick_is_that_of_the_tuner_itself(priors_of: Callable[[Problem, int], Sequence[Prior]]) -> None:
    """Without anything between a run and its designer, on a job on which a test shows the gain in some runs."""
    problem = all_problems(Sources())["mobilenet_v2_np4_crowded"]
    for seed in range(2):
        priors = priors_of(problem, seed)

        assert picked_by_the_tuner(problem, seed, priors) == picked_by_the_policy(problem, seed, priors)


def picked_by_the_tuner(problem: Problem, seed: int, priors: Sequence[Prior]) -> Config:
    """Return the pick of a run that asks its designer itself."""
    target = problem.target(seed)
    designer = GaussianProcessDesigner(target.space(), seed, priors)
    settings = RunSettings(max_samples=200, max_steps=200, warmup_steps=0, steps_per_sample=10, seed=seed)
    return TuningRun(target, designer, settings, open_log(None), SilentObserver(), clock=target.clock).run().config


def picked_by_the_policy(problem: Problem, seed: int, priors: Sequence[Prior]) -> Config:
    """Return the pick of the comparison's policy, which has the same knowledge."""
    return policy(lambda *_: priors)(problem, (200,), seed)[200].config
