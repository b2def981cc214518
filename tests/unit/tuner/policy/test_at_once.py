# SPDX-License-Identifier: Apache-2.0
"""Tests of baseline and search with several windows at the same time, and of the adoption test without neighbours."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ringtune.tuner import (
    Config,
    Phase,
    RunSettings,
    TargetClosed,
    Trial,
    Window,
    WindowSpec,
    default_config,
    find_unfinished,
    make_designer,
    open_log,
    read_log,
    search_space,
)
from ringtune.tuner.designers import DEFAULT_DESIGNER
from ringtune.tuner.logs.records import RunRecord, SampleRecord, SuggestionRecord
from ringtune.tuner.policy.believing import believed
from ringtune.tuner.policy.pace import Pace
from ringtune.tuner.policy.search import CROWDED
from ringtune.tuner.testing import SyntheticTarget, engine_like_surface, measured_trial, poor_baseline
from tests.unit.tuner.recording import Outcome, samples, tune

STEPS = 10


class Launches(SyntheticTarget):
    """Launches of ten steps, alone or beside each other.

    Attributes:
        groups: The configs of the windows that were measured at the same time, group after group.
    """

    def __init__(self, *, crowding: float = 1.0, closes_in_group: int = 10**6, seed: int = 0) -> None:
        """Begin without a launch.

        Args:
            crowding: Step time beside neighbours, as a multiple of that without.
            closes_in_group: Number of the group in which the job is over, after its first window.
            seed: Seed of the noise.
        """
        super().__init__(baseline=poor_baseline(), surface=self._crowded, seed=seed)
        self.groups: list[list[Config]] = []
        self._crowding = crowding
        self._closes_in_group = closes_in_group
        self._launched_steps = 0

    def windows(self, spec: WindowSpec) -> Iterator[Window]:
        """Yield windows without neighbours."""
        while True:
            self.groups.append([self.applied[-1]])
            yield self._launched(spec)

    def windows_at_once(self, specs: Sequence[WindowSpec]) -> Iterator[Window]:
        """Yield windows that begin at the same time; the clock goes on by the longest."""
        begin_s, ends_s, applied = self.now_s, [], self.applied
        self.groups.append([applied[spec.epoch - 1] for spec in specs])
        for place, spec in enumerate(specs):
            if place and len(self.groups) == self._closes_in_group:
                raise TargetClosed("the user has ended the run")
            self.now_s, self.applied = begin_s, applied[: spec.epoch]
            window = self._launched(spec)
            self.applied = applied
            ends_s.append(self.now_s)
            self.now_s = max(ends_s)
            yield window

    def _launched(self, spec: WindowSpec) -> Window:
        window = self._window(replace(spec, steps=STEPS))
        self._launched_steps += len(window.step_ms)
        return replace(window, last_step=self._launched_steps)

    def _crowded(self, config: Config) -> float:
        crowding = self._crowding if self.groups and len(self.groups[-1]) > 1 else 1.0
        return engine_like_surface(config) + math.log(crowding)


def tuned(target: Launches, at_once: int, designer: str = "random", **fields: object) -> Outcome:
    """Tune launches."""
    settings = RunSettings(fixed_windows=True, warmup_steps=0, adoption_pairs=3, at_once=at_once)
    settings = replace(settings, **fields)  # type: ignore[arg-type]
    return tune(target, make_designer(designer, target.space(), settings.seed, are_trials_cheap=True), settings)


def suggested(outcome: Outcome) -> list[Config]:
    """Return the suggestions in their order."""
    return [Config(record.config) for record in outcome.records if isinstance(record, SuggestionRecord)]


def test_baseline_and_search_have_the_same_neighbours_and_pairs_have_none() -> None:
    """One baseline alone; then full groups, with the baseline where no suggestion is; then pairs one by one."""
    target = Launches()

    outcome = tuned(target, 3, max_samples=10)

    pairs = samples(outcome, Phase.ADOPTION)
    base = poor_baseline()
    sizes = [len(group) for group in target.groups]
    assert [1, 3, *[3] * 4, *[1] * len(pairs)] == sizes
    assert [[base], [base] * 3] == target.groups[:2]
    assert [0, 0, 1, 1] == [group.count(base) for group in target.groups[2:6]]
    assert 10 == len(suggested(outcome))
    assert outcome.result.adopted, outcome.result.verdict
    assert 4 <= len(pairs)


@pytest.mark.parametrize("at_once", [4, 8])
def test_the_log_has_the_samples_in_the_order_of_the_suggestions(at_once: int) -> None:
    """A group is the baseline's windows, then a sample per suggestion, each in the trial of its config."""
    outcome = tuned(Launches(), at_once, max_samples=13)

    searched = samples(outcome, Phase.SEARCH)
    assert suggested(outcome) == [Config(record.config) for record in searched]
    assert list(range(1, 14)) == [record.trial_id for record in searched]
    assert {0} == {record.trial_id for record in samples(outcome, Phase.BASELINE)}
    assert [at_once] == [r.steps_budget["at_once"] for r in outcome.records if isinstance(r, RunRecord)]


@pytest.mark.parametrize("designer", ["gp", "random", "skopt", "optuna:tpe", "optuna:cmaes"])
def test_suggestions_at_once_differ_and_come_again_with_the_seed(designer: str) -> None:
    """Every designer has another config for each launch of a group, by the same rule each time."""
    first, second = (suggested(tuned(Launches(), 4, designer, max_samples=12)) for _ in range(2))

    assert first == second
    assert [4] * 3 == [len(set(first[at : at + 4])) for at in (0, 4, 8)]


def test_a_fantasy_is_a_sample_of_the_expected_time() -> None:
    """A new config becomes a trial; a measured one gets one more sample; the trials themselves stay."""
    other = default_config()
    trials = (measured_trial(0, poor_baseline(), [40.0, 41.0]), measured_trial(1, other, [20.0]))
    new = other.replace({"cycle_ms": 3.0})

    unmeasured, repeated = (believed(trials, config, math.log(30.0)) for config in (new, other))

    assert [trials[0], trials[1]] == list(unmeasured[:2])
    assert (2, new) == (unmeasured[2].trial_id, unmeasured[2].config)
    assert [30.0] == pytest.approx([math.exp(y) for y in unmeasured[2].log_step_ms])
    assert [20.0, 30.0] == pytest.approx([math.exp(y) for y in repeated[1].log_step_ms])
    assert trials[0].samples[-1].log_variance == pytest.approx(unmeasured[2].samples[0].log_variance)


def test_fantasies_are_forgotten_once_the_windows_are_measured() -> None:
    """The designer's trials at a new group are those that were measured."""
    told: list[Sequence[Trial]] = []
    target = Launches()
    designer = make_designer(DEFAULT_DESIGNER, target.space(), 0, are_trials_cheap=True)
    update = designer.update

    def note(trials: Sequence[Trial]) -> None:
        told.append(trials)
        update(trials)

    designer.update = note  # type: ignore[method-assign]
    settings = RunSettings(max_samples=6, fixed_windows=True, warmup_steps=0, at_once=3)
    outcome = tune(target, designer, settings)

    measured = [Config(record.config) for record in samples(outcome, Phase.SEARCH)]
    trials = [[trial.config for trial in each[1:]] for each in told]
    assert [[], measured[:1], measured[:2], measured[:3], measured[:4], measured[:5]] == trials[1:7]
    assert told[4][1].samples != told[3][1].samples


@pytest.mark.parametrize(("crowding", "count"), [(1.0, 0), (CROWDED + 0.2, 1)])
def test_launches_that_disturb_each_other_are_named(crowding: float, count: int) -> None:
    """The baseline beside itself is compared with the baseline alone; the winner is found all the same."""
    outcome = tuned(Launches(crowding=crowding), 4, max_samples=12)

    warnings = outcome.observer.warnings
    assert count == len(warnings)
    assert all("4 launches at once take 1.4" in text or "4 launches at once take 1.5" in text for text in warnings)
    assert outcome.result.adopted, outcome.result.verdict


@pytest.mark.parametrize("limits", [{"max_steps": 900}, {"max_seconds": 8.0}])
def test_a_budget_holds_for_launches_at_once(limits: dict[str, Any]) -> None:
    """Steps of all launches count, and seconds once; the adoption test has its share of the remaining budget."""
    target = Launches()

    outcome = tuned(target, 4, max_samples=None, **limits)

    steps = sum(record.steps for record in outcome.records if isinstance(record, SampleRecord))
    assert outcome.result.adopted, outcome.result.verdict
    assert 0.5 * limits.get("max_steps", 0) < steps <= limits.get("max_steps", math.inf)
    assert 0.5 * limits.get("max_seconds", 0) < target.now_s <= limits.get("max_seconds", math.inf)


@pytest.mark.parametrize(
    ("limits", "most"),
    [
        ({"max_samples": 2}, 2),
        ({"max_samples": None, "max_steps": 400}, 8),
        ({"max_samples": None, "max_steps": 220}, 5),
        ({"max_samples": None, "max_steps": 120}, 2),
    ],
)
def test_there_are_no_more_launches_at_once_than_there_is_use_for(limits: dict[str, Any], most: int) -> None:
    """Two samples need no eight launches of the baseline, and a small budget of steps is not spent on them."""
    target = Launches()

    outcome = tuned(target, 8, **limits)

    steps = sum(record.steps for record in outcome.records if isinstance(record, SampleRecord))
    assert {1, most} == {len(group) for group in target.groups}
    assert steps <= limits.get("max_steps", math.inf)
    assert samples(outcome, Phase.SEARCH)


def test_seconds_at_once_buy_more_samples() -> None:
    """The search of a budget in seconds has a multiple of the launches."""
    alone, four = (tuned(Launches(), at_once, max_samples=None, max_seconds=20.0) for at_once in (1, 4))

    assert 2.5 * len(samples(alone, Phase.SEARCH)) < len(samples(four, Phase.SEARCH))


def test_the_pace_is_that_of_a_launch() -> None:
    """Four launches of ten steps in two seconds: a step of a launch takes 0.2 s."""
    now_s = 0.0
    pace = Pace(lambda: now_s)
    for last_step in (40, 80, 120):
        now_s += 2.0
        pace.note(40, last_step, 4)

    assert 0.2 == pytest.approx(pace.seconds_per_step)
    assert 120 == pytest.approx(pace.job_steps)


def test_samples_that_were_complete_at_the_end_are_resumed(tmp_path: Path) -> None:
    """A run that is ended within a group goes on with the group's measurements."""
    log = tmp_path / "log"
    ended = Launches(closes_in_group=4)
    settings = RunSettings(fixed_windows=True, warmup_steps=0, at_once=3, max_samples=8, key={"target": "x"})
    tune(ended, make_designer("random", ended.space(), 0), settings, open_log(log))
    known = find_unfinished(log, settings.key, ended.space().to_json(), 0)

    target = Launches()
    outcome = tune(target, make_designer("random", target.space(), 0), replace(settings, prior_trials=known))

    assert [4, 3 + 1] == [len(known), len([s for s in read_log(log).runs[0].samples if s.phase == Phase.SEARCH])]
    assert 4 == len(suggested(outcome))
    assert set() == {trial.config for trial in known} & set(suggested(outcome))
    assert outcome.result.is_complete


def test_a_space_that_runs_out_ends_the_search() -> None:
    """Two configs, four launches: the search ends by the value of information, without more samples than allowed."""
    target = Launches()
    target._space = search_space({}, poor_baseline(), tuned=("response_cache",))

    outcome = tuned(target, 4, DEFAULT_DESIGNER, max_samples=1000)

    assert outcome.result.is_complete
    assert len(samples(outcome, Phase.SEARCH)) < 100
