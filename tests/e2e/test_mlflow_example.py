# SPDX-License-Identifier: Apache-2.0
"""The MLflow example logs the training and the tuner's work to one run, which MLflow's own interface reads back.

MLflow is imported late: every process that collects the tests would import it.
"""

from pathlib import Path
from typing import Any

import pytest

from job import ExampleJob
from ringtune.tuner.review import review_log
from tests.e2e.commands import BUDGET, run_forked

ARGUMENTS = ("--epochs", "3", "--train-for-tuner")


def client_of(store: str) -> Any:
    """Return MLflow's client of a store."""
    import mlflow

    return mlflow.MlflowClient(store)


def logged_runs(store: str) -> list[Any]:
    """Return all runs in the store."""
    client = client_of(store)
    return [run for one in client.search_experiments() for run in client.search_runs([one.experiment_id])]


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path, dict[str, Any]]:
    """Train on two ranks; return MLflow's store, the tuning log and the job's report."""
    folder = tmp_path_factory.mktemp("mlflow")
    store, log = f"sqlite:///{folder / 'mlflow.db'}", folder / "tuning.jsonl"
    variables = {**BUDGET, "AUTOTUNE_LOG": str(log)}
    job = ExampleJob("examples/mlflow_logging.py", [*ARGUMENTS, "--tracking-uri", store], 2, variables)
    return store, log, run_forked(job, folder / "report.json")


def test_training_and_tuning_are_in_one_run_of_rank_0(logged: tuple[str, Path, dict[str, Any]]) -> None:
    """The training's own metrics and parameters stand beside the tuner's."""
    store, _, report = logged

    (found,) = logged_runs(store)

    assert "FINISHED" == found.info.status
    assert pytest.approx(report["metrics"]["accuracy"]) == found.data.metrics["accuracy"]
    assert "16" == found.data.params["batch_size"]
    assert {"ringtune/score_bytes_per_s", "ringtune/step_ms", "ringtune/phase"} <= set(found.data.metrics)


def test_what_mlflow_has_is_what_the_tuning_log_has(logged: tuple[str, Path, dict[str, Any]]) -> None:
    """The verdict, the config in force, and the phases over the job's steps."""
    store, log, report = logged
    (run_review,) = review_log(log).runs

    (found,) = logged_runs(store)

    history = client_of(store).get_metric_history(found.info.run_id, "ringtune/phase")
    assert run_review.verdict == found.data.tags["ringtune.verdict"]
    assert run_review.chosen is not None
    assert {f"ringtune.{name}" for name in run_review.chosen} <= set(found.data.params)
    assert [0.0, 1.0, 2.0] == list(dict.fromkeys(metric.value for metric in history))[:3]
    steps = [metric.step for metric in history]
    assert sorted(steps) == steps
    assert 0 < steps[0] < steps[-1] <= report["steps"]
