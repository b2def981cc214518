# SPDX-License-Identifier: Apache-2.0
"""Learn to read handwritten digits from Parquet files, data-parallel: each rank reads row groups of its own.

The files come from Spark, or from `--write`; pyarrow reads them:

    python examples/parquet_digits.py digits.parquet --write
    ringtune run -np 2 python examples/parquet_digits.py digits.parquet

Row groups are shuffled anew in each epoch, and so are the rows of a group. Ranks get different numbers of batches; one
that has no more calls `join()`, which takes part in the others' steps with zeros. The last one's weights hold for all.
"""

import argparse
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from pyarrow.dataset import ParquetFileFragment, dataset
from torch import nn

import ringtune.torch as hvd
from digits import Digits, residual_mlp
from training import Batch, Report, publish

ROWS_PER_GROUP = 64
FILES = 3
WIDTH, DEPTH = 64, 4


@dataclass(frozen=True)
class Share:
    """A rank's part of the data.

    Attributes:
        groups: All row groups of the files, in the same order on every rank.
        rank: The rank.
        size: Number of ranks.
        seed: Seed of the shuffles, the same on every rank.
    """

    groups: Sequence[ParquetFileFragment]
    rank: int
    size: int
    seed: int

    def batches(self, epoch: int, batch_size: int) -> Iterator[Batch]:
        """Yield the rank's batches of an epoch; the last one may be smaller."""
        order = np.random.default_rng([self.seed, epoch]).permutation(len(self.groups))
        images, labels = torch.empty(0, 64), torch.empty(0, dtype=torch.int64)
        for number in order[self.rank :: self.size]:
            table = self.groups[number].to_table(columns=["pixels", "label"])
            rows = np.random.default_rng([self.seed, epoch, number]).permutation(len(table))
            more_images, more_labels = tensors_of(table.take(rows))
            images, labels = torch.cat([images, more_images]), torch.cat([labels, more_labels])
            while len(labels) >= batch_size:
                yield images[:batch_size], labels[:batch_size]
                images, labels = images[batch_size:], labels[batch_size:]
        if len(labels) > 0:
            yield images, labels


def tensors_of(table: pa.Table) -> Batch:
    """Return the pixels, of shape (n, 64), and the labels of a table's rows."""
    pixels = table["pixels"].combine_chunks().flatten().to_numpy()
    return torch.tensor(pixels, dtype=torch.float32).reshape(-1, 64), torch.tensor(table["label"].to_numpy())


def row_groups(path: Path) -> list[ParquetFileFragment]:
    """Return the row groups of the Parquet files in a folder, without reading their rows."""
    files = sorted(dataset(path, format="parquet").get_fragments(), key=lambda file: str(file.path))
    return [group for file in files for group in file.split_by_row_group()]


def write(path: Path, digits: Digits) -> None:
    """Write the training data into Parquet files: a list of 64 pixels and a label in each row."""
    path.mkdir(parents=True)
    for number, rows in enumerate(np.array_split(np.arange(len(digits.labels)), FILES)):
        columns = {"pixels": digits.images[rows].tolist(), "label": digits.labels[rows].numpy()}
        pq.write_table(pa.table(columns), path / f"part-{number}.parquet", row_group_size=ROWS_PER_GROUP)


@dataclass(frozen=True)
class Schedule:
    """Length and pace of a training.

    Attributes:
        epochs: Passes over the training data.
        batch_size: Examples per rank and step.
        learning_rate: Step size of stochastic gradient descent, which has a momentum of 0.9.
    """

    epochs: int
    batch_size: int
    learning_rate: float


def train(model: nn.Module, share: Share, schedule: Schedule) -> int:
    """Train on this rank's share, with the others; return this rank's steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=schedule.learning_rate, momentum=0.9)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    steps = 0
    for epoch in range(schedule.epochs):
        for images, labels in share.batches(epoch, schedule.batch_size):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(images), labels).backward()
            optimizer.step()
            steps += 1
        last = hvd.join()  # a rank without batches has missed the others' last steps: it takes them over
        hvd.broadcast_parameters(model.state_dict(), root_rank=last)
        hvd.broadcast_optimizer_state(optimizer, root_rank=last)
    return steps


def parse_arguments() -> argparse.Namespace:
    """Return the command line's arguments."""
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits from Parquet files.")
    parser.add_argument("path", type=Path, help="folder of the Parquet files")
    parser.add_argument("--write", action="store_true", help="write the files, and train nothing")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training data")
    parser.add_argument("--batch-size", type=int, default=32, help="examples per rank and step")
    parser.add_argument("--learning-rate", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--report", type=Path, metavar="FILE", help="rank 0 writes what the job came to as JSON")
    parser.add_argument("--save", type=Path, metavar="FILE", help="rank 0 saves the model's weights")
    return parser.parse_args()


def main() -> None:
    """Write the files, or train on this rank; rank 0 reports."""
    arguments = parse_arguments()
    digits = Digits.load()
    if arguments.write:
        write(arguments.path, digits)
        return
    torch.set_num_threads(1)
    torch.manual_seed(arguments.seed)
    hvd.init()
    model = residual_mlp(WIDTH, DEPTH)
    share = Share(row_groups(arguments.path), hvd.rank(), hvd.size(), arguments.seed)
    started_s = time.monotonic()
    steps = train(model, share, Schedule(arguments.epochs, arguments.batch_size, arguments.learning_rate))
    seconds = time.monotonic() - started_s
    if hvd.rank() == 0:
        parameters = list(model.parameters())
        report = Report(
            example="parquet_digits",
            seed=arguments.seed,
            world_size=hvd.size(),
            parameters=sum(parameter.numel() for parameter in parameters),
            tensors=len(parameters),
            steps=steps,
            seconds=seconds,
            steps_per_s=steps / seconds,
            tuning_finished=hvd.tuning_finished(),
            metrics={"accuracy": digits.accuracy(model)},
        )
        publish(report, arguments.report)
        if arguments.save is not None:
            torch.save(model.state_dict(), arguments.save)
    hvd.shutdown()


if __name__ == "__main__":
    main()
