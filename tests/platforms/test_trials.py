# SPDX-License-Identifier: Apache-2.0
"""Trials beside each other, driven by Optuna and Hyperopt: real jobs with one log, one cache and one metrics port."""

import math
import os
import re
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path

import hyperopt
import optuna
import pytest

from ringtune.tuner import Phase, StudyStore, read_log
from tests.e2e.documented_commands import file_of
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import Finished, run_job
from tests.integration.ports import free_port

PROGRAM = Path(__file__).parent / "programs" / "tuned_trial.py"
PAGE = REPOSITORY / "docs" / "howto" / "trials.md"
ENVIRON = {
    "AUTOTUNE": "1",
    "AUTOTUNE_BASELINE": "fusion_bytes=0,cycle_ms=5",
    "AUTOTUNE_STEPS_PER_SAMPLE": "10",
    "AUTOTUNE_WARMUP_STEPS": "10",
}
BEGINS = "ringtune autotune: the search begins with the samples of"
WAITS = "is tuning; this one waits its turn, training with"
BEFORE_SEARCH = {Phase.WARMUP, Phase.BASELINE}


@dataclass
class Trials:
    """A study of short jobs.

    Attributes:
        folder: Holds the files that all trials share.
        seconds: Training time of a trial.
        port: Metrics port that all of them are given.
        finished: The jobs, in the order of their ends.
    """

    folder: Path
    seconds: float
    port: int
    finished: list[Finished] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def objective(self, trial: optuna.Trial) -> float:
        """Train with the learning rate of a trial of Optuna's; return the loss."""
        return self.train(trial.suggest_float("learning_rate", 1e-3, 0.3, log=True))

    def train(self, rate: float) -> float:
        """Train with a learning rate; return the loss."""
        launch = [sys.executable, "-m", "ringtune.cli", "run", "-np", "2", sys.executable, str(PROGRAM)]
        environ = {
            **ENVIRON,
            "AUTOTUNE_CACHE": str(self.folder / "studies.jsonl"),
            "AUTOTUNE_LOCK": str(self.folder / "tuning.lock"),
            "AUTOTUNE_LOG": str(self.folder / "tuning.jsonl"),
            "RINGTUNE_METRICS_PORT": str(self.port),
        }
        job = run_job([*launch, f"{rate:.6g}", f"{self.seconds:g}"], environ, deadline_s=600.0)
        with self.lock:
            self.finished.append(job)
        assert 0 == job.code, job.text
        found = re.search(r"loss=(\S+)", job.stdout)
        assert found is not None, job.text
        return float(found[1])

    @property
    def tuned(self) -> list[Finished]:
        """The jobs that have searched; one whose turn came in its last moment has not."""
        return [job for job in self.finished if "searched" in job.stdout]


def run_study(trials: Trials, *, count: int, beside: int) -> optuna.Study:
    """Run a study of `count` trials, `beside` of them at a time."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(trials.objective, n_trials=count, n_jobs=beside)
    return study


def check(trials: Trials, study: optuna.Study, count: int) -> None:
    """Check that every trial ended well, that one tuned at a time, and that they have learned from each other."""
    everything = "\n".join(job.text for job in trials.finished)
    assert [optuna.trial.TrialState.COMPLETE] * count == [trial.state for trial in study.trials], everything
    assert study.best_value < max(trial.value or 0.0 for trial in study.trials)

    assert 2 <= len(trials.tuned), everything
    assert 1 == sum(BEGINS not in job.stderr for job in trials.tuned), everything
    assert any(WAITS in job.stderr for job in trials.finished), everything
    assert all(job.stderr.count("no metrics on") <= 2 for job in trials.finished), everything
    check_files(trials)


def check_files(trials: Trials) -> None:
    """Check that log and cache are whole: each record is a line of its run, in its order."""
    log, cache = read_log(trials.folder / "tuning.jsonl"), StudyStore(trials.folder / "studies.jsonl").contents()
    assert (0, 0) == (log.bad_line_count, cache.bad_line_count)
    searched = [run for run in log.runs if any(sample.phase not in BEFORE_SEARCH for sample in run.samples)]
    assert len(trials.tuned) == len(searched)
    assert all(run.run is not None for run in log.runs)
    windows = [[sample.t_s for sample in run.samples] for run in log.runs]
    assert all(times == sorted(times) for times in windows)


def test_trials_take_turns_and_learn_from_each_other(tmp_path: Path) -> None:
    """Six trials, three at a time: each goes on from the measurements of those before it."""
    trials = Trials(tmp_path, 4.0, free_port())

    study = run_study(trials, count=6, beside=3)

    check(trials, study, 6)


@pytest.mark.long
def test_hyperopt_drives_them_as_well(tmp_path: Path) -> None:
    """Two evaluations, one after the other: the second goes on from the first one's samples."""
    trials = Trials(tmp_path, 1.0, free_port())

    best = hyperopt.fmin(
        trials.train,
        hyperopt.hp.loguniform("learning_rate", math.log(1e-3), math.log(0.3)),
        algo=hyperopt.rand.suggest,
        max_evals=2,
        show_progressbar=False,
        verbose=False,
    )

    assert 1e-3 <= best["learning_rate"] <= 0.3
    assert [False, True] == [BEGINS in job.stderr for job in trials.finished]
    check_files(trials)


def test_the_study_of_the_page_runs(tmp_path: Path) -> None:
    """The page's program, with a training script beside it that prints a loss."""
    (tmp_path / "study.py").write_text(file_of(PAGE, "study.py"), encoding="utf-8")
    (tmp_path / "train.py").symlink_to(PROGRAM)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environ = {**ENVIRON, "AUTOTUNE_CACHE": "studies.jsonl", "AUTOTUNE_LOCK": "tuning.lock", "PATH": path}

    finished = run_job(["env", "-C", str(tmp_path), sys.executable, "study.py", "2"], environ, deadline_s=300.0)

    assert 0 == finished.code, finished.text
    assert "learning_rate" in finished.stdout
    assert "ringtune autotune: " in finished.stderr, finished.text


@pytest.mark.long
def test_twelve_trials_of_thirty_seconds(tmp_path: Path) -> None:
    """Twelve trials, four at a time, each of half a minute or more."""
    trials = Trials(tmp_path, 30.0, free_port())

    study = run_study(trials, count=12, beside=4)

    check(trials, study, 12)
    assert all(job.seconds >= 30.0 for job in trials.finished)
