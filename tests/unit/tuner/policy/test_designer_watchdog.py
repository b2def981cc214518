# SPDX-License-Identifier: Apache-2.0
"""Tests of the guard around designers."""

import itertools
import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from ringtune.tuner import Config, Suggestion, TargetClosed, default_config, search_space
from ringtune.tuner.policy.designer_watchdog import DesignerFailed, GuardedDesigner
from ringtune.tuner.testing import measured_trial, poor_baseline
from tests.unit.tuner.policy.scripted_designers import ScriptedDesigner, Unsure

SPACE = search_space({}, default_config())
TRIALS = (measured_trial(0, default_config(), [20.0]), measured_trial(1, poor_baseline(), [10.0]))
MEASURED = (default_config(), poor_baseline())
GENEROUS_S = 60.0


class JointlyScriptedDesigner(Unsure):
    """A scripted designer with a joint covariance."""

    def __init__(self, covariance: Any) -> None:
        """Answer with `covariance`."""
        super().__init__()
        self._covariance = covariance

    def covariance(self, configs: Sequence[Config]) -> Any:
        """Return the script's covariance."""
        del configs
        return self._covariance


def guarded(
    suggest: Callable[[], Any], means: Any = (3.0, 2.0, 2.5), deadline_s: float = GENEROUS_S
) -> GuardedDesigner:
    """Return a guard around a scripted designer."""
    return GuardedDesigner(ScriptedDesigner(suggest, means), SPACE, deadline_s)


def test_advice_has_the_suggestion_and_the_best_posterior_mean() -> None:
    """The incumbent is the measured config with the lowest predicted step time."""
    suggestion = Suggestion(default_config().replace({"cycle_ms": 3}), 1e6, math.inf)

    advice = guarded(lambda: suggestion).advise(TRIALS, MEASURED)

    assert poor_baseline() == advice.incumbent
    assert Suggestion(default_config().replace({"cycle_ms": 3.0}), 1e6, None) == advice.suggestion
    assert advice.ask_ms >= 0


def test_advice_has_the_joint_posterior() -> None:
    """The measured configs, the baseline first, and the suggestion; independent ones without a joint posterior."""
    covariance = np.full((3, 3), 0.01)
    joint = GuardedDesigner(JointlyScriptedDesigner(covariance), SPACE, GENEROUS_S).advise(TRIALS, MEASURED).posterior
    sole = GuardedDesigner(Unsure(), SPACE, GENEROUS_S).advise(TRIALS, MEASURED).posterior

    assert joint is not None
    assert sole is not None
    assert [3.0, 2.0, 2.5] == list(joint.means) == list(sole.means)
    assert np.array_equal(covariance, joint.covariance)
    assert np.allclose(np.diag([0.01, 0.01, 0.01]), sole.covariance)


@pytest.mark.parametrize("covariance", [np.eye(2), np.full((3, 3), math.nan), "much", None], ids=str)
def test_a_designer_whose_covariance_is_nonsense_has_failed(covariance: object) -> None:
    """A covariance of the wrong configs, of infinite values, or of no matrix is a failure."""
    designer = JointlyScriptedDesigner(covariance)

    with pytest.raises(DesignerFailed, match="designer scripted knows no covariance of 3 configs"):
        GuardedDesigner(designer, SPACE, GENEROUS_S).advise(TRIALS, MEASURED)


def test_a_designer_that_raises_has_failed() -> None:
    """The message has the designer's own words."""
    with pytest.raises(DesignerFailed, match=r"designer scripted raised ZeroDivisionError"):
        guarded(lambda: 1 / 0).advise(TRIALS, MEASURED)


def test_a_designer_that_exits_has_failed() -> None:
    """SystemExit in a designer does not end the job."""

    def leave() -> None:
        raise SystemExit(3)

    with pytest.raises(DesignerFailed, match="SystemExit"):
        guarded(leave).advise(TRIALS, MEASURED)


def test_a_designer_that_waits_for_a_processor_has_not_failed() -> None:
    """The designer's CPU time counts, for an answer may be late by the clock on a crowded machine."""
    suggestion = Suggestion(default_config())
    waited = threading.Event()

    def late() -> Suggestion:
        waited.wait(1.5)  # by the clock beyond the deadline, and no processor's time at all
        return suggestion

    assert suggestion == guarded(late, deadline_s=1.0).advise(TRIALS, MEASURED).suggestion


def test_a_job_that_was_stopped_meanwhile_has_a_designer_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour between two looks at the clock counts as a second."""
    suggestion = Suggestion(default_config())
    begun, looked_again = threading.Event(), threading.Event()
    clock, looks = time.monotonic, itertools.count()

    def stopped_once() -> float:
        is_stopped = begun.is_set()
        if is_stopped and next(looks) == 1:
            looked_again.set()
        return clock() + (3600.0 if is_stopped else 0.0)

    def suggest() -> Suggestion:
        begun.set()
        looked_again.wait(GENEROUS_S)
        return suggestion

    monkeypatch.setattr(time, "monotonic", stopped_once)

    assert suggestion == guarded(suggest, deadline_s=5.0).advise(TRIALS, MEASURED).suggestion


def test_a_designer_that_computes_without_end_has_failed() -> None:
    """Once it has used up its time."""
    release = threading.Event()

    def busy() -> None:
        while not release.is_set():
            pass

    try:
        with pytest.raises(DesignerFailed, match=r"did not answer within 0\.1 s"):
            guarded(busy, deadline_s=0.1).advise(TRIALS, MEASURED)
    finally:
        release.set()


def test_a_designer_that_never_returns_has_failed() -> None:
    """After the deadline the run goes on without it; its thread is a daemon."""
    release = threading.Event()

    with pytest.raises(DesignerFailed, match=r"did not answer within 0\.05 s"):
        guarded(release.wait, deadline_s=0.05).advise(TRIALS, MEASURED)

    release.set()


def test_the_end_of_the_job_ends_the_wait_for_a_designer() -> None:
    """The run ends quietly, long before the designer's deadline: the designer has not failed."""
    thinking, release = threading.Event(), threading.Event()

    def think() -> None:
        thinking.set()
        release.wait()

    guard = GuardedDesigner(ScriptedDesigner(think, (3.0, 2.0, 2.5)), SPACE, GENEROUS_S, is_over=thinking.is_set)

    with pytest.raises(TargetClosed, match="the job ended while the designer was thinking"):
        guard.advise(TRIALS, MEASURED)

    release.set()


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        "fusion",
        default_config(),
        Suggestion(default_config().replace({"cycle_ms": 1e9})),
        Suggestion(default_config().replace({"cycle_ms": math.nan})),
        Suggestion(Config({})),
        Suggestion(None),  # type: ignore[arg-type]
        Suggestion(default_config(), "fast"),  # type: ignore[arg-type]
    ],
)
def test_a_suggestion_that_is_none_has_failed(nonsense: object) -> None:
    """Wrong types and configs outside the space are refused before they reach the target."""
    with pytest.raises(DesignerFailed, match="designer scripted suggested"):
        guarded(lambda: nonsense).advise(TRIALS, MEASURED)


@pytest.mark.parametrize("means", [(math.nan, 1.0), (1.0,), "nonsense", None, (math.inf, 1.0)])
def test_a_prediction_that_is_none_has_failed(means: object) -> None:
    """Wrong shapes and numbers that are not finite are refused."""
    with pytest.raises(DesignerFailed, match="predicted nonsense for 2 configs"):
        guarded(lambda: Suggestion(default_config()), means).predict(TRIALS, MEASURED)
