# SPDX-License-Identifier: Apache-2.0
"""One plain process that trains as the ranks of `examples/parquet_digits.py` do together; it knows no ringtune."""

from pathlib import Path

import torch
from torch import Tensor, nn

from digits import residual_mlp
from parquet_digits import DEPTH, WIDTH, Schedule, Share, row_groups


def fresh_model(seed: int = 0) -> nn.Module:
    """Return the example's model before its first step."""
    torch.manual_seed(seed)
    return residual_mlp(WIDTH, DEPTH)


def shares(path: Path, size: int, seed: int = 0) -> list[Share]:
    """Return the shares of all ranks."""
    groups = row_groups(path)
    return [Share(groups, rank, size, seed) for rank in range(size)]


def trained_alone(path: Path, size: int, schedule: Schedule) -> dict[str, Tensor]:
    """Return the weights after the batches of all ranks: a rank without a batch counts with a gradient of zeros."""
    model = fresh_model()
    optimizer = torch.optim.SGD(model.parameters(), lr=schedule.learning_rate, momentum=0.9)
    for epoch in range(schedule.epochs):
        of_ranks = [list(share.batches(epoch, schedule.batch_size)) for share in shares(path, size)]
        for step in range(max(map(len, of_ranks))):
            optimizer.zero_grad()
            for images, labels in (batches[step] for batches in of_ranks if step < len(batches)):
                (nn.functional.cross_entropy(model(images), labels) / size).backward()
            optimizer.step()
    return model.state_dict()
