# SPDX-License-Identifier: Apache-2.0
"""The examples run as the README says: alone, under ringtune and under torchrun, tuned and not.

Those whose start is not under test are forked; the tutorial's test launches the digits as they are written.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from job import ExampleJob
from ringtune.tuner.review import review_log
from tests.e2e.commands import BUDGET, RINGTUNE, TIMEOUT_S, TORCHRUN, run, run_forked, run_ringtune
from tests.integration.jobs import preloaded_python


@pytest.fixture(scope="module")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    """Train the digits on two ranks with a small tuning budget; return the tuning log and the report."""
    folder = tmp_path_factory.mktemp("digits")
    log = folder / "tuning.jsonl"
    arguments = ["--epochs", "8", "--depth", "6", "--width", "128", "--train-for-tuner"]
    job = ExampleJob("examples/digits.py", arguments, 2, {**BUDGET, "AUTOTUNE_LOG": str(log)})
    return log, run_forked(job, folder / "report.json")


def test_a_tuned_job_learns_to_read_digits(tuned: tuple[Path, dict[str, Any]]) -> None:
    """Two ranks with the tuner on learn as well as a single process: nine in ten unseen images."""
    _, report = tuned

    assert 2 == report["world_size"]
    assert report["metrics"]["accuracy"] > 0.9


def test_a_tuned_job_leaves_a_log_with_a_result(tuned: tuple[Path, dict[str, Any]]) -> None:
    """The tuning run comes to its end while the job trains, and the log has the decision."""
    log, report = tuned

    (run_review,) = review_log(log).runs

    assert report["tuning_finished"]
    assert run_review.is_complete
    assert run_review.adopted or run_review.verdict.startswith("keeping default")


def test_review_reads_the_log_of_a_real_job(tuned: tuple[Path, dict[str, Any]]) -> None:
    """`ringtune review LOG` prints the verdict and names the knobs."""
    log, _ = tuned
    (run_review,) = review_log(log).runs

    reviewed = run_ringtune("review", str(log))

    assert 0 == reviewed.returncode, reviewed.stderr
    assert run_review.verdict.partition(":")[0] in reviewed.stdout
    assert "fusion_bytes" in reviewed.stdout


def test_the_digits_run_alone(tmp_path: Path) -> None:
    """Without a launcher the example is a world of one."""
    job = ExampleJob("examples/digits.py", ["--steps", "5", "--small", "--batch-size", "64"], ranks=1)

    report = job.run(tmp_path / "report.json", timeout_s=TIMEOUT_S)

    assert (1, 5) == (report["world_size"], report["steps"])


def test_the_digits_train_elastically(tmp_path: Path) -> None:
    """The launcher's elastic mode runs the elastic example to its end, with one line an epoch from rank 0."""
    python = tmp_path / "python"
    variables = preloaded_python(python)
    elastic = [RINGTUNE, "run", "-np", "2", "--min-np", "1", "--max-np", "2"]

    finished = run([*elastic, str(python), "examples/elastic_digits.py", "--epochs", "2"], variables)

    assert 0 == finished.returncode, finished.stderr
    assert 2 == finished.stdout.count("ranks, accuracy 0."), finished.stdout


def test_the_transformer_runs_under_torchrun(tmp_path: Path) -> None:
    """Torchrun starts the same script unchanged."""
    report, python = tmp_path / "report.json", tmp_path / "python"
    variables = {**preloaded_python(python), "PYTHON_EXEC": str(python)}

    finished = run([*TORCHRUN, "examples/text_transformer.py", "--steps", "6", "--report", str(report)], variables)

    assert 0 == finished.returncode, finished.stderr
    assert 2 == json.loads(report.read_text(encoding="utf-8"))["world_size"]


def test_the_transformer_learns(tmp_path: Path) -> None:
    """Thirty steps on two ranks are enough to beat a uniform guess over the characters by far."""
    job = ExampleJob("examples/text_transformer.py", ["--steps", "30"])

    report = run_forked(job, tmp_path / "report.json")

    assert report["metrics"]["loss_nats_per_character"] < 4.0


def test_a_batch_that_the_data_cannot_fill_is_a_usage_error(tmp_path: Path) -> None:
    """The message says how many images a step would need and how many there are."""
    python = tmp_path / "python"

    finished = run([str(python), "examples/digits.py", "--batch-size", "5000"], preloaded_python(python))

    assert 0 != finished.returncode
    assert "needs 5000 images a step; there are 1437" in finished.stderr
