# SPDX-License-Identifier: Apache-2.0
"""Configs that an earlier run adopted: where they are known, preferred, and tested again."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from ringtune.tuner import Config, Phase, RunSettings, Trial, default_config, make_designer, search_space
from ringtune.tuner.designers import WarmStartedDesigner
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import AdoptionRecord
from ringtune.tuner.logs.store import KeepingLog
from ringtune.tuner.policy.designer_watchdog import DesignerFailed, GuardedDesigner
from ringtune.tuner.priors.warm_start import EarlierStudy, earlier_studies
from ringtune.tuner.testing import Disturbances, SyntheticTarget, measured_trial, poor_baseline
from tests.unit.tuner.policy.scripted_designers import Unsure
from tests.unit.tuner.recording import Outcome, samples, tune

KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}
SPACE = search_space({}, default_config(), tuned=("cycle_ms",))


def cycle(cycle_ms: float) -> Config:
    """Return the default config with another cycle."""
    return default_config().replace({"cycle_ms": cycle_ms})


GOOD = cycle(4.0)


def surface(config: Config) -> float:
    """Return ln(step time in ms) of a job that gains 6 % where its cycles are as long as GOOD's, or longer."""
    return math.log(20.0) - 0.06 * min(float(config["cycle_ms"]) / 4.0, 1.0) + 0.015


def target(noise: float = 0.002, seed: int = 0) -> SyntheticTarget:
    """Return the job."""
    return SyntheticTarget(surface=surface, space=SPACE, disturbances=Disturbances(step_noise=noise), seed=seed)


@pytest.fixture(scope="module")
def run() -> RunLog:
    """A finished run of that job, which adopted something."""
    log = KeepingLog()
    outcome = tune(target(), settings=RunSettings(key=KEY), log=log)
    assert outcome.result.adopted, outcome.result.verdict
    (first, *_) = records = log.finished_run()
    kept = RunLog(first.run_id)
    for record in records:
        kept.add(record)
    return kept


def adopted_config(run: RunLog) -> Config:
    """Return the config that it adopted."""
    assert run.result is not None
    return Config(run.result.config)


def test_a_study_of_the_same_question_knows_what_it_has_adopted(run: RunLog) -> None:
    """The adopted config is a designer's first suggestion, and the designer says so."""
    (study,) = earlier_studies([run], KEY, SPACE, 0)
    designer = make_designer("gp", SPACE, 0, [study])
    designer.update([measured_trial(0, default_config(), [20.0, 20.1])])

    assert isinstance(designer, WarmStartedDesigner)
    assert adopted_config(run) == study.adopted == study.best_config() == designer.adopted_before
    assert adopted_config(run) == designer.suggest().config


@pytest.mark.parametrize("changed", [{"hardware": "i"}, {"layout": [4]}, {"model": "n"}])
def test_what_was_adopted_elsewhere_is_only_believed(run: RunLog, changed: dict[str, object]) -> None:
    """Another machine, another scale, another model: its samples are a prior, its test is none of this job's."""
    assert run.run is not None
    elsewhere = replace(run, run=replace(run.run, key={**run.run.key, **changed}))

    (study,) = earlier_studies([elsewhere], KEY, SPACE, 0)

    assert study.adopted is None


def test_a_run_that_kept_its_baseline_has_adopted_nothing(run: RunLog) -> None:
    """However good its samples looked."""
    assert run.result is not None
    kept = replace(run, result=replace(run.result, adopted=False))

    (study,) = earlier_studies([kept], KEY, SPACE, 0)

    assert study.adopted is None


def test_what_cannot_be_applied_now_was_not_adopted(run: RunLog) -> None:
    """The samples of a config that cannot be applied now are left out, and so is its test."""
    gone = replace(run, samples=[sample for sample in run.samples if Config(sample.config) != adopted_config(run)])

    (study,) = earlier_studies([gone], KEY, SPACE, 0)

    assert study.adopted is None
    assert study.best_config() in study.configs


def experienced(trials: Sequence[Trial] = (), adopted: Config | None = GOOD) -> EarlierStudy:
    """Return a study that has adopted GOOD, with its baseline first."""
    measured = [cycle(1.0), cycle(2.0), GOOD, cycle(8.0)]
    own = [measured_trial(i, c, [math.exp(surface(c))] * 3) for i, c in enumerate(measured)]
    return EarlierStudy(SPACE, trials or own, 0, adopted=adopted)


def test_it_was_tested_against_the_baseline_of_now_or_not_at_all() -> None:
    """Better than another baseline is not better than this one."""
    designer = make_designer("gp", SPACE, 0, [experienced()])
    assert isinstance(designer, WarmStartedDesigner)

    designer.update([measured_trial(0, cycle(2.0), [20.0, 20.1])])

    assert designer.adopted_before is None


def warm(noise: float, study: EarlierStudy, seed: int, max_steps: int = 120) -> Outcome:
    """Return a run of a job that knows an earlier one."""
    settings = RunSettings(max_samples=max_steps, max_steps=max_steps, warmup_steps=0, steps_per_sample=10, seed=seed)
    return tune(target(noise, seed), make_designer("gp", SPACE, seed, [study]), settings=settings)


def test_it_is_the_challenger_and_has_as_much_to_show_as_something_new() -> None:
    """Steps scatter by as much as is gained: the verdict names the earlier run, the interval is as any."""
    known = [warm(0.04, experienced(), seed).result for seed in range(8)]
    unknown = [warm(0.04, experienced(adopted=None), seed).result for seed in range(8)]

    again = [result for result in known if result.adopted]
    assert len(again) >= sum(result.adopted for result in unknown)
    assert all((result.ci_low or 0.0) > 0 for result in again)
    assert all(("an earlier run of the same job" in r.verdict) == (r.config == GOOD) for r in again)
    assert GOOD in [result.config for result in again]


def test_among_equals_it_is_preferred() -> None:
    """Longer cycles are as good, and noise puts one of them first; one within its error does not take the place."""
    cases = [(max_steps, seed) for max_steps in (100, 120) for seed in range(8)]
    known = [warm(0.02, experienced(), seed, max_steps).result.config for max_steps, seed in cases]
    unknown = [warm(0.02, experienced(adopted=None), seed, max_steps).result.config for max_steps, seed in cases]

    assert known.count(GOOD) >= 5
    assert unknown.count(GOOD) <= 1


def test_what_is_surely_better_does() -> None:
    """An earlier run may have found little."""
    poor = cycle(1.5)
    study = experienced(adopted=poor)

    result = warm(0.002, study, 0).result

    assert result.adopted
    assert surface(result.config) < surface(poor) - 0.02
    assert "an earlier run" not in result.verdict


def test_it_is_not_measured_once_more_before_its_test() -> None:
    """The config owes its place to no luck: one window of the search, then pairs."""
    settings = RunSettings(max_samples=2, warmup_steps=0, steps_per_sample=10)
    outcome = tune(target(), make_designer("gp", SPACE, 0, [experienced()]), settings=settings)

    taken = [Config(record.config) for record in samples(outcome, Phase.ADOPTION)]
    (decision,) = (record for record in outcome.records if isinstance(record, AdoptionRecord))
    assert GOOD == outcome.result.config
    assert 1 == [Config(record.config) for record in samples(outcome, Phase.SEARCH)].count(GOOD)
    assert 2 * len(decision.pairs) == len(taken)


class Told(Unsure):
    """A designer with a given adopted config."""

    name = "told"

    def __init__(self, answer: object) -> None:
        """Answer so, or raise it."""
        super().__init__()
        self._answer = answer

    @property
    def adopted_before(self) -> Config | None:
        """Return the given config."""
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer  # type: ignore[return-value]


TRIALS = (measured_trial(0, default_config(), [20.0]),)


@pytest.mark.parametrize(
    "answer", [None, poor_baseline(), Config({"cycle_ms": -1.0}), "all"], ids=["none", "fixed", "bad", "text"]
)
def test_what_the_space_does_not_allow_was_not_adopted(answer: Any) -> None:
    """A designer of somebody else's may say anything."""
    assert GuardedDesigner(Told(answer), SPACE, 60.0).adopted_before(TRIALS) is None


def test_a_designer_that_raises_has_failed() -> None:
    """A designer that raises here has failed, as with every other answer."""
    with pytest.raises(DesignerFailed, match="told raised ZeroDivisionError"):
        GuardedDesigner(Told(ZeroDivisionError()), SPACE, 60.0).adopted_before(TRIALS)


def test_a_designer_that_knows_of_no_earlier_run_says_none() -> None:
    """Most do not."""
    assert GuardedDesigner(make_designer("random", SPACE, 0), SPACE, 60.0).adopted_before(TRIALS) is None
