# SPDX-License-Identifier: Apache-2.0
"""Short jobs that learn together: unfinished runs as one study, in ratios to their own baselines."""

import math
from collections.abc import Sequence
from dataclasses import replace

import pytest

from ringtune.tuner import Config, Phase, RunSettings, Trial, default_config, make_designer
from ringtune.tuner.designers import DesignerWrapper
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import SampleRecord
from ringtune.tuner.logs.store import KeepingLog
from ringtune.tuner.priors.pooling import MOST_RUNS, pooled_trials, runs_by_question
from ringtune.tuner.priors.warm_start import ContinuedRuns, earlier_studies
from ringtune.tuner.testing import Disturbances, SyntheticTarget, engine_like_surface, measured_trial, poor_baseline
from tests.unit.tuner.recording import Outcome, tune

KEY = {"hardware": "h", "model": "m", "layout": [2], "target": "ringtune", "surface_version": 1}
WINDOWS = 9
"""Windows of a short job: three of the baseline, and six configs."""


def log_of(run_id: str, records: Sequence[object]) -> RunLog:
    """Return the records of a run as they are read from a file."""
    log = RunLog(run_id)
    for record in records:
        log.add(record)  # type: ignore[arg-type]
    return log


def short_job(runs: Sequence[RunLog], number: int, *, slowness: float = 1.0, windows: int = WINDOWS) -> RunLog:
    """Return the run of a job that ends before its decision, and that knows earlier ones.

    Args:
        runs: Earlier runs.
        number: Makes the run's id.
        slowness: Factor of every step time.
        windows: Windows until the job ends.
    """
    log = KeepingLog()
    play(runs, number, log, slowness=slowness, windows=windows)
    return log_of(f"run-{number}", log.unfinished_run())


def play(
    runs: Sequence[RunLog],
    number: int,
    log: KeepingLog | None = None,
    *,
    slowness: float = 1.0,
    windows: int | None = WINDOWS,
) -> Outcome:
    """Return the outcome of a job; see `short_job`."""
    target = SyntheticTarget(
        surface=lambda config: engine_like_surface(config) + math.log(slowness),
        baseline=poor_baseline(),
        disturbances=Disturbances(step_noise=0.002, closes_after_windows=windows),
        seed=number,
    )
    space = target.space()
    settings = RunSettings(run_id=f"run-{number}", key=KEY, warmup_steps=0, steps_per_sample=10)
    designer = make_designer("gp", space, 0, earlier_studies(runs, KEY, space, 0))
    return tune(target, designer, settings=settings, log=log)


def searched(run: RunLog) -> list[Config]:
    """Return the configs that a run's search measured, in order."""
    return [Config(record.config) for record in run.samples if record.phase == Phase.SEARCH]


def test_a_job_goes_on_where_another_was_ended() -> None:
    """The best so far is measured again, the others are new: together they come through the initial design."""
    first = short_job([], 0, windows=6)
    second = short_job([first], 1, windows=8)
    third = short_job([first, second], 2, windows=8)

    assert 3 == len(searched(first))
    assert 1 >= len(set(searched(second)) & set(searched(first)))
    known = {*searched(first), *searched(second)}
    assert 1 >= len(set(searched(third)) & known)
    assert min(known, key=engine_like_surface) == searched(third)[0]


def test_jobs_too_short_for_a_decision_come_to_one_together() -> None:
    """Jobs of twelve windows: alone none decides, one after the other they adopt a config, after a test."""
    runs: list[RunLog] = []
    found: list[Config] = []
    for number in range(10):
        log = KeepingLog()
        outcome = play(runs, number, log, windows=12)
        if outcome.result.is_complete:
            break
        runs.append(log_of(f"run-{number}", log.unfinished_run()))
        found += searched(runs[-1])

    assert not any(play([], number, windows=12).result.is_complete for number in range(10))
    assert outcome.result.adopted, outcome.result.verdict
    best = min(map(engine_like_surface, found))
    assert engine_like_surface(outcome.result.config) <= best + 0.02
    assert outcome.result.ci_low is not None
    assert outcome.result.ci_low > 0
    tested = [r for r in log.finished_run() if isinstance(r, SampleRecord) and r.phase == Phase.ADOPTION]
    assert 4 <= len(tested)


def test_runs_under_other_load_are_compared_by_their_baselines() -> None:
    """A run twice as slow says the same of its configs: the pool has one baseline."""
    first, second = short_job([], 0), short_job([], 1, slowness=2.0)
    space = SyntheticTarget().space()

    trials = pooled_trials([first, second], space)

    assert poor_baseline() == trials[0].config
    spread = [max(trial.log_step_ms) - min(trial.log_step_ms) for trial in trials]
    assert max(spread) < 0.05
    assert trials[0].log_step_ms[-1] == pytest.approx(engine_like_surface(poor_baseline()) + math.log(2.0), abs=0.05)


@pytest.mark.parametrize(("slowness", "is_taken"), [(1.0, True), (1.3, True), (0.75, True), (2.0, False), (0.4, False)])
def test_runs_of_another_batch_size_are_kept_apart(slowness: float, *, is_taken: bool) -> None:
    """A default step that is much longer or shorter is one of another batch, whose gains in percent do not hold."""
    run = short_job([], 0, slowness=slowness)
    (study,) = earlier_studies([run], KEY, SyntheticTarget().space(), 0)
    assert isinstance(study, ContinuedRuns)
    baseline_ms = math.exp(engine_like_surface(poor_baseline()))

    trials = study.trials_beside([measured_trial(0, poor_baseline(), [baseline_ms])])

    assert is_taken == bool(trials)
    if is_taken:
        assert trials[0].log_step_ms[0] == pytest.approx(math.log(baseline_ms), abs=0.02)


def test_a_run_of_which_nothing_but_the_baseline_is_legal_is_left_out() -> None:
    """A knob may be fixed to another value than in the runs before."""
    run = short_job([], 0)
    assert run.run is not None
    alone = replace(run, samples=[record for record in run.samples if record.config == run.run.baseline])
    study = ContinuedRuns(SyntheticTarget().space(), [alone], 0, "a run")

    assert () == study.trials_beside([measured_trial(0, poor_baseline(), [50.0])])


def test_a_run_without_its_baseline_says_nothing() -> None:
    """Its step times have no baseline to be compared with."""
    run = short_job([], 0)
    assert run.run is not None
    others = [record for record in run.samples if record.config != run.run.baseline]

    assert [] == pooled_trials([replace(run, samples=others)], SyntheticTarget().space())


def test_runs_from_another_baseline_are_another_study() -> None:
    """A config that beats one baseline need not beat another."""
    run = short_job([], 0)
    assert run.run is not None
    other = replace(run, run=replace(run.run, baseline=default_config().to_json()))

    groups = runs_by_question(enumerate([run, other, run]))

    assert [[0, 2], [1]] == [[number for number, _ in group] for group in groups]


def test_the_newest_runs_alone_are_taken() -> None:
    """A hundred runs make a study of the newest."""
    run = short_job([], 0)
    space = SyntheticTarget().space()

    (study,) = earlier_studies([run] * 100, KEY, space, 0)

    assert f"{MOST_RUNS} unfinished runs" == study.origin
    assert isinstance(study, ContinuedRuns)


@pytest.mark.parametrize(
    ("changed", "origin"),
    [
        ({"layout": [4]}, "an unfinished run with 4 ranks in place of 2"),
        ({"hardware": "i"}, "an unfinished run of another hardware"),
        ({"layout": [1, 1], "model": "n"}, "an unfinished run with 2 ranks in place of 2 of another model"),
    ],
)
def test_a_run_of_another_question_is_a_prior_and_nothing_more(changed: dict[str, object], origin: str) -> None:
    """Its configs are tried again here, and the study says whose it is."""
    run = short_job([], 0)
    assert run.run is not None
    elsewhere = replace(run, run=replace(run.run, key={**KEY, **changed}))

    (study,) = earlier_studies([elsewhere], KEY, SyntheticTarget().space(), 0)

    assert not isinstance(study, ContinuedRuns)
    assert origin == study.origin


def test_the_nearest_number_of_ranks_comes_first() -> None:
    """A world that grows from 4 to 6 ranks begins with the best of 4 ranks, however old it is."""
    run = short_job([], 0)
    assert run.run is not None
    runs = [replace(run, run=replace(run.run, key={**KEY, "layout": [ranks]})) for ranks in (4, 16, 2)]

    studies = earlier_studies(runs, {**KEY, "layout": [6]}, SyntheticTarget().space(), 0)

    assert ["4", "16"] == [study.origin.split()[4] for study in studies]


class Listener(DesignerWrapper):
    """Keeps the trials that its designer was given last."""

    trials: Sequence[Trial] = ()

    def update(self, trials: Sequence[Trial]) -> None:
        """Keep them, and update the designer."""
        self.trials = trials
        super().update(trials)


def test_samples_that_contradict_the_study_end_it() -> None:
    """The pooled samples promise gains of configs that are slow here: these are retried, and the pool is dropped."""
    runs = [short_job([], number) for number in range(3)]
    flipped = [replace(run, samples=[_flipped(record) for record in run.samples]) for run in runs]
    space = SyntheticTarget().space()
    (study,) = earlier_studies(flipped, KEY, space, 0)
    assert isinstance(study, ContinuedRuns)
    designer = Listener(make_designer("gp", space, 0, [study]))

    outcome = tune(
        SyntheticTarget(baseline=poor_baseline(), disturbances=Disturbances(step_noise=0.002), seed=5),
        designer,
        settings=RunSettings(key=KEY, warmup_steps=0, steps_per_sample=10),
    )

    assert outcome.result.adopted, outcome.result.verdict
    assert study.trials_beside(designer.trials[:1])
    assert () == study.trials_beside(designer.trials)


def _flipped(record: SampleRecord) -> SampleRecord:
    """Return a sample with the inverse of its relative step time."""
    pivot = math.exp(engine_like_surface(poor_baseline()))
    times = {name: pivot * pivot / value for name, value in record.step_ms.items() if name != "mad"}
    return replace(record, step_ms={**times, "mad": record.step_ms["mad"]})
