# SPDX-License-Identifier: Apache-2.0
"""Ranks read their shards by Petastorm, in an environment of its own: `make setup-petastorm`."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from digits import Digits
from parquet_digits import write
from tests.house.source_tree import REPOSITORY
from tests.integration.jobs import run_job

PYTHON = REPOSITORY / ".venv-petastorm" / "bin" / "python"
PROGRAM = Path(__file__).with_name("petastorm_rank.py")
RANKS, EPOCHS, LEARNING_RATE = 5, 3, 0.5
Batch = Mapping[str, NDArray[Any]]


@pytest.mark.long
def test_ranks_train_on_the_shards_of_petastorm(tmp_path: Path) -> None:
    """Each row is read once in an epoch; unequal shards end by a join; the weights are those of one plain process."""
    assert PYTHON.exists(), f"{PYTHON} is missing: make setup-petastorm"
    path, out = tmp_path / "digits", tmp_path / "out"
    out.mkdir()
    digits = Digits.load()
    write(path, digits)
    launcher = [str(PYTHON), "-m", "ringtune", "run", "-np", str(RANKS), str(PYTHON), str(PROGRAM), str(path), str(out)]

    finished = run_job(launcher)

    assert 0 == finished.code, finished.text
    weights = np.zeros((64, 10))
    for epoch in range(EPOCHS):
        of_ranks = [_batches(out, epoch, rank) for rank in range(RANKS)]
        assert 1 < len({len(batches) for batches in of_ranks})
        seen = np.concatenate([batch["images"] for batches in of_ranks for batch in batches])
        assert np.array_equal(np.sort(digits.images.sum(1).numpy()), np.sort(seen.sum(1).astype(np.float32)))
        weights = _trained_alone(weights, of_ranks)
    for rank in range(RANKS):
        np.testing.assert_allclose(np.load(out / f"weights-{rank}.npy"), weights, rtol=1e-9, atol=1e-12)
    accuracy = ((digits.test_images.numpy() @ weights).argmax(1) == digits.test_labels.numpy()).mean()
    assert accuracy > 0.8


def _batches(out: Path, epoch: int, rank: int) -> list[Batch]:
    """Return a rank's batches of an epoch."""
    count = len(list(out.glob(f"{epoch}-{rank}-*.npz")))
    return [np.load(out / f"{epoch}-{rank}-{number}.npz") for number in range(count)]


def _trained_alone(weights: NDArray[np.float64], of_ranks: Sequence[Sequence[Batch]]) -> NDArray[np.float64]:
    """Return the weights after an epoch; a rank without a batch counts with a gradient of zeros."""
    for step in range(max(map(len, of_ranks))):
        gradients = [_gradient(weights, batches[step]) for batches in of_ranks if step < len(batches)]
        weights = weights - LEARNING_RATE * np.sum(gradients, axis=0) / RANKS
    return weights


def _gradient(weights: NDArray[np.float64], batch: Batch) -> NDArray[np.float64]:
    """Return the gradient of the mean cross entropy of a softmax regression."""
    scores = batch["images"] @ weights
    likelihoods = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    return np.asarray(batch["images"].T @ (likelihoods - np.eye(10)[batch["labels"]]) / len(scores))
