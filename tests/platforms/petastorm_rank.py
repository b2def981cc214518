# SPDX-License-Identifier: Apache-2.0
"""One rank that reads its shard by Petastorm and trains a softmax regression; Petastorm's environment runs it.

Arguments: the dataset's folder, and a folder in which each rank leaves its batches and its weights.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from petastorm import make_batch_reader

import ringtune.arrays as hvd

EPOCHS, LEARNING_RATE = 3, 0.5
Floats = NDArray[np.float64]


def batches(path: Path, epoch: int) -> Iterator[tuple[Floats, NDArray[np.int64]]]:
    """Yield the pixels and labels of this rank's row groups."""
    reader = make_batch_reader(
        path.as_uri(),
        cur_shard=hvd.rank(),
        shard_count=hvd.size(),
        num_epochs=1,
        shard_seed=epoch,
        reader_pool_type="dummy",
    )
    with reader:
        for group in reader:
            yield np.stack(group.pixels).astype(np.float64), np.asarray(group.label)


def gradient(weights: Floats, images: Floats, labels: NDArray[np.int64]) -> Floats:
    """Return the gradient of the mean cross entropy of a softmax regression, of shape (64, 10)."""
    scores = images @ weights
    shares = np.exp(scores - scores.max(1, keepdims=True))
    shares /= shares.sum(1, keepdims=True)
    shares[np.arange(len(labels)), labels] -= 1
    return np.asarray(images.T @ shares / len(labels))


def main(path: Path, out: Path) -> None:
    """Train; the rank that joins last tells the others its weights."""
    hvd.init()
    weights = np.zeros((64, 10))
    for epoch in range(EPOCHS):
        for number, (images, labels) in enumerate(batches(path, epoch)):
            np.savez(out / f"{epoch}-{hvd.rank()}-{number}.npz", images=images, labels=labels)
            weights -= LEARNING_RATE * hvd.allreduce(gradient(weights, images, labels), name="gradient")
        weights = hvd.broadcast(weights, root_rank=hvd.join(), name="weights")
    np.save(out / f"weights-{hvd.rank()}.npy", weights)
    hvd.shutdown()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
