# SPDX-License-Identifier: Apache-2.0
"""Tests of the whole tuning run: failures of the designer, the observer, the log and the target; resuming."""

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from ringtune.tuner import (
    Config,
    Phase,
    Prediction,
    Progress,
    RunSettings,
    Suggestion,
    TargetClosed,
    Trial,
    TuningRun,
    default_config,
    find_unfinished,
    make_designer,
    open_log,
    read_log,
    search_space,
)
from ringtune.tuner.designers.random import RandomDesigner
from ringtune.tuner.logs.records import EndRecord, SampleRecord
from ringtune.tuner.testing import Disturbances, SyntheticTarget, poor_baseline
from tests.unit.tuner.recording import Outcome, RecordingLog, RecordingObserver, tune


class Failing(RandomDesigner):
    """Behaves for a while, then fails in a given way."""

    def __init__(self, target: SyntheticTarget, how: str) -> None:
        """Fail at the fourth suggestion, in the way `how`."""
        super().__init__(target.space(), 0)
        self.release = threading.Event()
        self._how = how
        self._asked = 0

    def suggest(self) -> Suggestion:
        """Suggest, or fail."""
        self._asked += 1
        if self._asked < 4:
            return super().suggest()
        if self._how == "raise":
            raise RuntimeError("out of ideas")
        if self._how == "hang":
            self.release.wait()
        return Suggestion(default_config().replace({"fusion_bytes": -1}))


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("raise", "designer random raised RuntimeError('out of ideas')"),
        ("nonsense", "designer random suggested a config that is not allowed: fusion_bytes=-1"),
        ("hang", "designer random did not answer within 0.2 s"),
    ],
)
def test_a_designer_that_fails_leaves_the_job_on_its_default(how: str, reason: str) -> None:
    """The baseline is back in force, the reason is logged once, and no error is raised."""
    target = SyntheticTarget(baseline=poor_baseline())
    designer = Failing(target, how)

    outcome = tune(target, designer, RunSettings(deadline_s=0.2 if how == "hang" else 60.0))
    designer.release.set()

    assert outcome.result.verdict.startswith(f"keeping default: {reason}")
    assert poor_baseline() == outcome.result.config == target.applied[-1]
    assert [outcome.result] == outcome.observer.results
    assert [] == outcome.observer.warnings


def test_a_designer_that_cannot_predict_leaves_the_default() -> None:
    """A failure after the search, when the challenger is chosen, is the same."""

    class Blind(RandomDesigner):
        """Cannot predict."""

        def predict(self, configs: Sequence[Config]) -> Prediction:
            """Fail."""
            raise ValueError(f"{len(configs)} configs are too many")

    target = SyntheticTarget(baseline=poor_baseline())

    result = tune(target, Blind(target.space(), 0)).result

    assert "keeping default" in result.verdict
    assert poor_baseline() == target.applied[-1]


def test_a_job_that_ends_first_ends_the_run_quietly() -> None:
    """No warning, no result in the log, and the log's last record is the verdict, which says in which phase."""
    target = SyntheticTarget(disturbances=Disturbances(closes_after_windows=15))

    outcome = tune(target)

    assert outcome.result.verdict.startswith("unfinished: the job ended in the search phase of tuning, after ")
    assert EndRecord(outcome.records[-1].t_s, outcome.records[0].run_id, outcome.result.verdict) == outcome.records[-1]
    assert not outcome.result.is_complete
    assert [] == outcome.observer.warnings
    assert "result" not in {type(record).__name__.removesuffix("Record").lower() for record in outcome.records}


def test_a_broken_target_ends_the_run_on_the_baseline() -> None:
    """Any other error is said in the verdict, not raised into the job."""

    class Broken(SyntheticTarget):
        """Cannot switch any more after a while."""

        def apply(self, config: Config) -> int:
            """Fail from the fourth switch on, but for the baseline."""
            if len(self.applied) > 3 and config != self.baseline():
                raise OSError("no route to rank 3")
            return super().apply(config)

    target = Broken()

    result = tune(target).result

    assert "keeping default: the tuner failed: OSError('no route to rank 3')" == result.verdict
    assert default_config() == target.applied[-1]


def test_an_observer_that_raises_costs_one_warning() -> None:
    """A failing observer cannot stop the tuning."""

    class Clumsy(RecordingObserver):
        """Cannot show progress."""

        def progress(self, progress: Progress) -> None:
            """Fail."""
            raise BrokenPipeError("the terminal is gone")

    target, observer = SyntheticTarget(baseline=poor_baseline()), Clumsy()
    designer = make_designer("random", target.space(), 0)

    result = TuningRun(target, designer, RunSettings(), RecordingLog(), observer, clock=target.clock).run()

    assert result.adopted
    assert 1 == len(observer.warnings)


def test_progress_names_phases_counts_and_time_left() -> None:
    """Phases come in order, counts reach their totals, and the time left falls to zero."""
    outcome = tune(SyntheticTarget(baseline=poor_baseline(), seed=2))

    seen = outcome.observer.seen
    phases = list(dict.fromkeys(progress.phase for progress in seen))
    last = {progress.phase: progress for progress in seen}

    assert [Phase.WARMUP, Phase.BASELINE, Phase.SEARCH, Phase.ADOPTION, Phase.WATCH] == phases
    assert [(3, 3), (20, 20)] == [(last[p].sample, last[p].samples_total) for p in phases[1:3]]
    assert (True, 12) == (2 <= last[Phase.ADOPTION].sample < 12, last[Phase.ADOPTION].samples_total)
    assert 0 == last[Phase.WATCH].seconds_left
    assert None is seen[0].seconds_left
    assert all(progress.steps_per_s for progress in seen[1:])


def test_cost_and_payback_are_reported() -> None:
    """A run from the default has a cost, and the number of steps that win it back."""
    result = tune(SyntheticTarget(seed=0), settings=RunSettings(seed=3)).result

    assert result.adopted
    assert result.speedup is not None
    assert result.cost_s > 0
    gain_s = 0.022 * (1 - 1 / (1 + result.speedup))
    assert pytest.approx(result.cost_s / gain_s, rel=0.2) == result.payback_steps


def test_an_unfinished_run_is_resumed_from_its_log(tmp_path: Path) -> None:
    """The trials of two interrupted runs are taken over; the baseline is measured anew; no config is tried twice."""
    path, key = tmp_path / "tuning.jsonl", {"model": "m", "hardware": "h"}
    space = search_space({}, poor_baseline())

    def attempt(run_id: str, closes_after_windows: int | None, prior: tuple[Trial, ...]) -> Outcome:
        disturbances = Disturbances(closes_after_windows=closes_after_windows)
        target = SyntheticTarget(baseline=poor_baseline(), disturbances=disturbances, seed=6)
        log = open_log(path)
        outcome = tune(target, settings=RunSettings(run_id=run_id, key=key, prior_trials=prior), log=log)
        log.close()
        return outcome

    attempt("first", 14, ())
    attempt("second", 14, find_unfinished(path, key, space.to_json(), 0))
    prior = find_unfinished(path, key, space.to_json(), 0)
    last = attempt("third", None, prior)

    runs = read_log(path).runs
    searched = [[r for r in run.samples if r.phase == Phase.SEARCH] for run in runs]
    assert last.result.adopted
    assert 0 < len(searched[0]) < len(prior) == len(searched[0]) + len(searched[1])
    assert 20 == sum(len(group) for group in searched)
    assert 20 == len({Config(record.config) for group in searched for record in group})
    assert 3 <= sum(record.phase == Phase.BASELINE for record in runs[2].samples)
    assert () == find_unfinished(path, key, space.to_json(), 0)


def test_second_samples_count_when_a_run_is_resumed(tmp_path: Path) -> None:
    """A designer that asks for every config twice has half as many configs, and no more samples."""
    path, key = tmp_path / "tuning.jsonl", {"model": "m", "hardware": "h"}
    space = search_space({}, poor_baseline())

    class Twice(RandomDesigner):
        """Suggests every config once more."""

        def suggest(self) -> Suggestion:
            """Return a config that has one sample; else a new one."""
            once = [trial.config for trial in self.trials[1:] if len(trial.samples) == 1]
            return Suggestion(once[0]) if once else super().suggest()

        def update(self, trials: Sequence[Trial]) -> None:
            """Remember them."""
            self.trials = tuple(trials)
            super().update(trials)

    for run_id, closes_after_windows in (("first", 14), ("second", None)):
        target = SyntheticTarget(
            baseline=poor_baseline(), disturbances=Disturbances(closes_after_windows=closes_after_windows), seed=6
        )
        prior = find_unfinished(path, key, space.to_json(), 0)
        log = open_log(path)
        tune(target, Twice(space, 0), RunSettings(run_id=run_id, key=key, prior_trials=prior), log)
        log.close()

    searched = [record for run in read_log(path).runs for record in run.samples if record.phase == Phase.SEARCH]
    assert 20 == len(searched)
    assert 10 == len({Config(record.config) for record in searched})


def test_a_target_that_closes_in_the_last_switch_is_quiet() -> None:
    """A target that closes in the very last call is quiet, too."""

    class Closing(SyntheticTarget):
        """Is over as soon as the baseline shall come back."""

        def apply(self, config: Config) -> int:
            """Close at the second switch to the baseline."""
            if self.applied:
                raise TargetClosed("over")
            return super().apply(config)

    outcome = tune(Closing(), settings=RunSettings(max_samples=1))

    assert not outcome.result.is_complete
    assert [] == outcome.observer.warnings


def test_windows_are_numbered_and_timed() -> None:
    """Records carry increasing window numbers and times."""
    outcome = tune(SyntheticTarget())

    taken = [record for record in outcome.records if isinstance(record, SampleRecord)]
    assert list(range(len(taken))) == [record.window for record in taken]
    assert sorted(record.t_s for record in outcome.records) == [record.t_s for record in outcome.records]
