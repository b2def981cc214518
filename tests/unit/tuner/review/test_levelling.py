# SPDX-License-Identifier: Apache-2.0
"""Tests of reviews on a machine whose speed changes: no figure contradicts the verdict, which rests on pairs."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ringtune.tuner import Phase
from ringtune.tuner.review import Analysis, RunReview, analyse, review_log
from ringtune.tuner.review.sensitivity import MATTERS
from ringtune.tuner.testing import SyntheticTarget, engine_like_surface, flat_surface
from tests.unit.tuner.review.logs import drifting_target, logged

Speed = Callable[[SyntheticTarget], float]
BUSY = 1.0
"""ln(step time) that a neighbour adds: the machine has little more than a third of its speed."""


def after_configs(count: int) -> Speed:
    """Return a speed that falls for good once so many configs were asked for."""
    return lambda target: BUSY if len(target.applied) > count else 0.0


def slowly(target: SyntheticTarget) -> float:
    """Fall all the time, to a third or less."""
    return 0.04 * len(target.applied)


SPEEDS = {"between search and test": after_configs(26), "in the search": after_configs(12), "slowly": slowly}


def reviewed_run(path: Path, target: SyntheticTarget, **settings: Any) -> tuple[RunReview, Analysis]:
    """Tune the target, and review its log."""
    logged(path, target=target, **{"designer": "gp", "max_samples": 20, **settings})
    (run,) = review_log(path).runs
    return run, analyse(run)


@pytest.mark.parametrize("speed", SPEEDS.values(), ids=SPEEDS)
def test_a_review_does_not_contradict_its_verdict(tmp_path: Path, speed: Speed) -> None:
    """The adopted config is faster in its medians, too, and its speed-up is the test's."""
    run, analysis = reviewed_run(tmp_path / "x.jsonl", drifting_target(speed, seed=1))

    assert run.adopted
    by_config = {trial.config: trial for trial in analysis.trials}
    assert run.chosen is not None
    assert run.baseline is not None
    baseline, chosen = by_config[run.baseline], by_config[run.chosen]
    assert baseline.log_time is not None
    assert chosen.log_time is not None
    assert chosen.change is not None
    assert pytest.approx(math.log1p(run.speedup or 0.0), abs=0.15) == baseline.log_time - chosen.log_time
    assert (run.speedup, run.ci_low, run.ci_high) == (chosen.change.fraction, chosen.change.low, chosen.change.high)
    assert analysis.drift_removed


@pytest.mark.parametrize("speed", SPEEDS.values(), ids=SPEEDS)
@pytest.mark.parametrize("seed", range(3))
def test_drift_is_no_effect_of_a_parameter(tmp_path: Path, speed: Speed, seed: int) -> None:
    """On a flat surface no knob matters, and no config is much better, whatever the machine does."""
    target = drifting_target(speed, surface=flat_surface, seed=seed)

    _, analysis = reviewed_run(tmp_path / "x.jsonl", target, designer="random", max_samples=40)

    assert [] == [item.name for item in analysis.sensitivities if item.finding == MATTERS]
    times = [trial.log_time for trial in analysis.trials if trial.log_time is not None]
    assert max(times) - min(times) < BUSY - 0.1
    assert analysis.gap is not None
    assert analysis.gap.fraction < 0.15


def test_an_effect_smaller_than_the_drift_is_not_known(tmp_path: Path) -> None:
    """The drift that was removed is an estimate; an effect within it may be an error of that estimate."""
    _, analysis = reviewed_run(tmp_path / "x.jsonl", drifting_target(slowly, seed=3))

    for item in analysis.sensitivities:
        assert item.finding != MATTERS or math.log1p(item.effect.fraction) > analysis.levelled.spread


def test_a_steady_machine_changes_nothing(tmp_path: Path) -> None:
    """Windows are shown as they were measured."""
    run, analysis = reviewed_run(tmp_path / "x.jsonl", drifting_target(lambda _: 0.0, seed=1))

    assert run == analysis.levelled.run
    assert not analysis.drift_removed


def test_the_tuner_finds_the_best_config_on_a_machine_that_slows_down(tmp_path: Path) -> None:
    """Configs that were measured on the faster machine do not lead by that."""
    results = [
        logged(tmp_path / f"{seed}.jsonl", target=drifting_target(slowly, seed=seed), designer="gp").result
        for seed in range(4)
    ]

    for result in results:
        assert result.adopted, result.verdict
        assert engine_like_surface(result.config) < engine_like_surface(result.baseline) - 0.5


def test_windows_of_a_config_measured_once_have_no_interval(tmp_path: Path) -> None:
    """Only repeated windows show how much they differ; the baseline and the tested config have several."""
    run, analysis = reviewed_run(tmp_path / "x.jsonl", drifting_target(lambda _: 0.0, seed=1))

    once = [trial for trial in analysis.trials if trial.windows == 1]
    assert once
    assert {None} == {trial.change for trial in once}
    assert all(trial.change is not None for trial in analysis.trials if trial.windows > 1)
    assert run.tested == next(s.config for s in run.tried if s.phase == Phase.ADOPTION and s.config != run.baseline)
