# SPDX-License-Identifier: Apache-2.0
"""Bad input to a whole tuning run: whatever comes, it ends in a decision, and training keeps a legal config.

Each designer's answers to random histories are in `designers/test_histories.py`; designers, logs and targets that fail,
and a space without a free knob, in `test_run.py`; lines of a log that are no records in `test_log_reader.py`.
"""

import math
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from ringtune.tuner import (
    CategoryParameter,
    Config,
    Phase,
    RunSettings,
    SearchSpace,
    Suggestion,
    Trial,
    VoidReason,
    Window,
    WindowSpec,
    default_config,
    find_unfinished,
    make_designer,
    open_log,
    read_log,
    search_space,
)
from ringtune.tuner.designers.random import RandomDesigner
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.testing import Disturbances, SyntheticTarget, flat_surface, poor_baseline
from tests.unit.tuner.recording import Outcome, samples, tune

KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}
EXACT = Disturbances(step_noise=0.0, window_noise=0.0)


class Spoiled(SyntheticTarget):
    """Every third window is replaced by the test's values."""

    def __init__(self, step_ms: float, size: int) -> None:
        """Take implausible step times and bytes per step."""
        super().__init__(baseline=poor_baseline(), seed=8)
        self._spoiled_ms = step_ms
        self._spoiled_bytes = size

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows, every third of them spoiled."""
        for window in super().windows(spec):
            if self._windows % 3 == 0:
                yield replace(window, step_ms=(self._spoiled_ms,) * spec.steps, bytes_per_step=self._spoiled_bytes)
            else:
                yield window


@pytest.mark.parametrize(
    ("step_ms", "size", "designer"),
    [
        (math.nan, 10**6, "gp"),
        (math.inf, 10**6, "random"),
        (0.0, 10**6, "random"),
        (-5.0, 10**6, "random"),
        (5e-324, 10**6, "random"),
        (10.0, 0, "random"),
        (10.0, -(10**6), "random"),
    ],
)
def test_scores_that_are_no_positive_numbers_are_void_and_measured_again(
    step_ms: float, size: int, designer: str
) -> None:
    """Non-finite, zero and negative ones: the search has its samples all the same, and finds the gain."""
    target = Spoiled(step_ms, size)
    settings = RunSettings(max_samples=6, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer(designer, target.space(), 0), settings)

    searched = samples(outcome, Phase.SEARCH)
    assert outcome.result.adopted
    assert {VoidReason.INVALID_SCORE.value} == {record.reason for record in searched if not record.valid}
    assert 6 == sum(record.valid for record in searched)
    assert all(math.isfinite(record.score_bytes_per_s or 0.0) for record in outcome.records if record in searched)


@pytest.mark.parametrize("designer", ["gp", "random"])
def test_constant_scores_keep_the_default(designer: str) -> None:
    """Not a digit differs between any two windows: every spread is zero, and no value is divided by it."""
    target = SyntheticTarget(surface=flat_surface, disturbances=EXACT)
    settings = RunSettings(max_samples=6, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer(designer, target.space(), 0), settings)

    assert outcome.result.is_complete
    assert not outcome.result.adopted
    assert "failed" not in outcome.result.verdict
    assert default_config() == target.applied[-1]


@pytest.mark.parametrize("config", [default_config(), poor_baseline()])
def test_a_designer_that_repeats_itself_fills_one_trial(config: Config) -> None:
    """A repetition of the baseline joins its trial: equal configs are one trial, with all samples."""

    class Repeating(RandomDesigner):
        """Has one idea."""

        def suggest(self) -> Suggestion:
            """Return it."""
            return Suggestion(config)

    target = SyntheticTarget(baseline=poor_baseline())
    outcome = tune(target, Repeating(target.space(), 0), RunSettings(max_samples=5))

    expected = 0 if config == poor_baseline() else 1
    assert [expected] * 5 == [record.trial_id for record in samples(outcome, Phase.SEARCH)]
    assert outcome.result.adopted == (config != poor_baseline())


@pytest.mark.parametrize("designer", ["gp", "random", "skopt"])
def test_a_single_legal_config_is_kept(designer: str) -> None:
    """A free knob with one value: the search has one config, and must not fail."""
    space = SearchSpace((CategoryParameter("allreduce_algorithm", ("auto",), "auto"),), {})
    only = Config({"allreduce_algorithm": "auto"})
    target = SyntheticTarget(surface=flat_surface, baseline=only, space=space)
    settings = RunSettings(max_samples=3, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, make_designer(designer, space, 0), settings)

    assert "keeping default: no configuration is expected to gain more than 1 %" == outcome.result.verdict
    assert {only} == set(target.applied)


@pytest.mark.parametrize("max_samples", [0, 1, 2])
def test_tiny_budgets_of_samples_end_in_a_decision(max_samples: int) -> None:
    """None, one and two: as many configs are tried, and an adopted one was tested."""
    target = SyntheticTarget(baseline=poor_baseline(), seed=1)

    outcome = tune(target, make_designer("gp", target.space(), 0), RunSettings(max_samples=max_samples))

    assert max_samples == len({record.trial_id for record in samples(outcome, Phase.SEARCH)})
    assert outcome.result.is_complete
    assert outcome.result.adopted == bool(samples(outcome, Phase.ADOPTION))
    assert outcome.result.adopted == (max_samples > 0)


@pytest.mark.parametrize("max_steps", [0, 1, 2, 15, 40])
def test_tiny_budgets_of_steps_keep_the_default(max_steps: int) -> None:
    """A tiny budget does not reach for a search and a test; only the baseline's first window may exceed it."""
    target = SyntheticTarget(baseline=poor_baseline(), seed=1)
    settings = RunSettings(max_steps=max_steps, warmup_steps=0, steps_per_sample=10)

    outcome = tune(target, settings=settings)

    assert outcome.result.is_complete
    assert not outcome.result.adopted
    assert poor_baseline() == target.applied[-1]
    assert outcome.result.steps <= max(max_steps, 12)


def test_the_wall_clock_may_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    """Years forth and back between any two looks: only monotonic time counts, and every result is the same."""
    steady = tune(SyntheticTarget(baseline=poor_baseline(), seed=4))
    jumps = count()
    monkeypatch.setattr(time, "time", lambda: (-1.0) ** next(jumps) * 1e9)

    jumping = tune(SyntheticTarget(baseline=poor_baseline(), seed=4))

    assert steady.result == jumping.result
    assert [record.t_s for record in steady.records] == [record.t_s for record in jumping.records]


def test_a_machine_that_slept_ends_in_a_decision() -> None:
    """The monotonic clock itself may leap by a day where a system counts its sleep: the run goes on."""

    class Sleepy(SyntheticTarget):
        """Sleeps a day in the twelfth window."""

        def windows(self, spec: WindowSpec) -> Iterator[Window]:
            """Yield windows."""
            for window in super().windows(spec):
                self.now_s += 86_400.0 if self._windows == 12 else 0.0
                yield window

    outcome = tune(Sleepy(baseline=poor_baseline(), seed=4))

    assert outcome.result.adopted
    assert outcome.result.seconds > 86_400


class Journey:
    """One job's tuning log, through kills and restarts."""

    def __init__(self, path: Path) -> None:
        """Keep the log there."""
        self.path = path

    def go_on(self) -> tuple[Outcome, tuple[Trial, ...]]:
        """Start the job; return its outcome, and the trials that it took over."""
        prior = find_unfinished(self.path, KEY, search_space({}, poor_baseline()).to_json(), 0)
        settings = RunSettings(
            key=KEY,
            max_samples=4,
            warmup_steps=10,
            steps_per_sample=10,
            adoption_pairs=2,
            prior_trials=prior,
        )
        log = open_log(self.path)
        outcome = tune(SyntheticTarget(baseline=poor_baseline(), seed=7), settings=settings, log=log)
        log.close()
        return outcome, prior

    def searched(self) -> list[list[SampleRecord]]:
        """Return the valid samples of the search, run by run."""
        runs = read_log(self.path).runs
        return [[r for r in run.samples if r.phase == Phase.SEARCH and r.valid] for run in runs]


def test_a_run_killed_at_any_moment_is_resumed_without_measuring_a_finished_trial_again(tmp_path: Path) -> None:
    """The log is cut after each of its records, and in the middle of each; every run ends with its four configs."""
    whole = Journey(tmp_path / "whole.jsonl")
    whole.go_on()
    lines = whole.path.read_bytes().splitlines(keepends=True)
    ends = [sum(map(len, lines[:number])) for number in range(len(lines))]
    cuts = sorted({cut for end, line in zip(ends, lines, strict=True) for cut in (end, end + len(line) // 2)})

    for cut in cuts:
        journey = Journey(tmp_path / f"{cut}.jsonl")
        journey.path.write_bytes(whole.path.read_bytes()[:cut])
        finished = [Config(record.config) for run in journey.searched() for record in run]

        outcome, prior = journey.go_on()

        again = [Config(record.config) for record in journey.searched()[-1]]
        assert {trial.config for trial in prior} == set(finished)
        assert not set(again) & set(finished), cut
        assert 4 == len(finished) + len(again) == len({*finished, *again})
        assert outcome.result.is_complete
    assert len(cuts) >= 2 * len(lines) - 2
