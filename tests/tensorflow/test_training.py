# SPDX-License-Identifier: Apache-2.0
"""Keras and tapes in real jobs, against training alone on the joined batches; the example, tuned."""

import sys
from pathlib import Path

import pytest

from job import ExampleJob
from ringtune.tuner.review import review_log
from tests.integration.jobs import run_job
from tests.tensorflow.launching import WAYS, assert_all_right, run

BUDGET = {
    "AUTOTUNE": "1",
    "AUTOTUNE_MAX_SAMPLES": "3",
    "AUTOTUNE_WARMUP_STEPS": "5",
    "AUTOTUNE_STEPS_PER_SAMPLE": "5",
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("ranks", [2, pytest.param(3, marks=pytest.mark.long)])
def test_ranks_train_as_one_process_on_the_joined_batch(ranks: int, way: str) -> None:
    """Training agrees with every option, in graphs and eagerly, by optimizer and by tape."""
    assert_all_right(run(ranks, "training", way), ranks)


@pytest.mark.parametrize("way", WAYS)
def test_a_rank_that_is_left_alone_says_so(way: str) -> None:
    """An error inside fit is TensorFlow's, with the name and the text of ours."""
    finished = run(2, "left_alone", way)

    assert 0 == finished.code, finished.text
    assert "UnknownError: " in finished.stdout, finished.text
    assert "PeerLostError: rank 1 " in finished.stdout, finished.text


def test_keras_without_tensorflow_is_refused_with_what_to_do() -> None:
    """The message names the backend and the variable that chooses it."""
    # The other backends have dependencies of their own, which this environment lacks.
    program = "import keras; keras.config.backend = lambda: 'torch'; import ringtune.keras"

    finished = run_job([sys.executable, "-c", program])

    assert 1 == finished.code, finished.text
    assert "ConfigError: Keras runs on torch here" in finished.stderr, finished.text
    assert "KERAS_BACKEND=tensorflow" in finished.stderr, finished.text


def test_the_keras_example_learns_while_it_is_tuned(tmp_path: Path) -> None:
    """The program of Horovod's tutorial: nine in ten unseen images are read, and tuning comes to a verdict."""
    log = tmp_path / "tuning.jsonl"
    arguments = ["--epochs", "4", "--depth", "6", "--train-for-tuner"]
    job = ExampleJob("examples/keras_digits.py", arguments, 2, {**BUDGET, "AUTOTUNE_LOG": str(log)})

    report = job.run(tmp_path / "report.json", timeout_s=150.0)
    (review,) = review_log(log).runs

    assert 2 == report["world_size"]
    assert report["metrics"]["accuracy"] > 0.9
    assert report["tuning_finished"]
    assert review.is_complete
    assert review.adopted or review.verdict.startswith("keeping default")
