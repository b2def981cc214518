# SPDX-License-Identifier: Apache-2.0
"""Trains in the loop that everybody writes first: while the tuner has not finished. Argument: a front end.

Each rank asks a different number of times, and is late by a different time.
"""

import sys
import time
from collections.abc import Callable

import numpy as np

from ringtune import arrays
from tests.integration.plain_rank import say

MOST_STEPS = 200_000


def array_step() -> Callable[[], object]:
    """Return the step that reduces an array and marks itself."""
    values = np.ones(1000, np.float32)

    def step() -> None:
        arrays.allreduce(values, name="gradient")
        arrays.mark_step()

    return step


def torch_step() -> Callable[[], object]:
    """Return the step that trains a model with a DistributedOptimizer."""
    import torch

    import ringtune.torch as hvd

    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 1))
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    inner = torch.optim.SGD(model.parameters(), lr=0.001)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())

    def step() -> None:
        optimizer.zero_grad()
        model(torch.ones(4, 16)).square().mean().backward()
        optimizer.step()

    return step


def main() -> None:
    """Train until all ranks hear that the tuner has finished."""
    arrays.init()
    step = {"arrays": array_step, "torch": torch_step}[sys.argv[1]]()
    rank, steps = arrays.rank(), 0
    while not arrays.tuning_finished() and steps < MOST_STEPS:
        step()
        steps += 1
        for _ in range(rank):
            arrays.tuning_finished()
        if steps % (7 + rank) == 0:
            time.sleep(0.002 * rank)
    say(f"rank {rank}: left after {steps} steps, finished {arrays.tuning_finished()}")
    arrays.shutdown()
    say(f"rank {rank}: without a world {arrays.tuning_finished()}")


main()
