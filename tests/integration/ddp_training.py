# SPDX-License-Identifier: Apache-2.0
"""A small model under DDP and its training, the same in every call, for programs that compare and tune."""

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH = 32


class Branches(torch.nn.Module):
    """A stack of layers and two branches, of which a step may use either."""

    def __init__(self) -> None:
        super().__init__()
        self.stack = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(6)))
        self.branches = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(2))

    def forward(self, inputs: torch.Tensor, uses: tuple[int, ...] = (0, 1)) -> torch.Tensor:
        """Return the output of the branches in `uses` on the stack's output."""
        outputs = torch.tanh(self.stack(inputs))
        for index in uses:
            outputs = outputs + self.branches[index](outputs)
        return outputs


def wrapped(**options: Any) -> DistributedDataParallel:
    """Return the model under DDP, of several buckets, with equal weights in every call and on every rank."""
    torch.manual_seed(3)
    return DistributedDataParallel(Branches(), **{"bucket_cap_mb": 0.01, **options})


def train(model: DistributedDataParallel, steps: int, *, passes: int = 1, begins_with: int | None = None,
          uses: Any = None, before: Callable[[int], object] = lambda _: None) -> list[torch.Tensor]:  # fmt: skip
    """Train some steps on this rank's rows and return every step's gradients.

    Only the last of a step's passes is synchronised; the first step may have another number of them.
    """
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    gradients: list[torch.Tensor] = []
    for step in range(steps):
        before(step)
        optimizer.zero_grad()
        wanted = begins_with if step == 0 and begins_with is not None else passes
        for number in range(wanted):
            generator = torch.Generator().manual_seed(100 * step + 10 * number + dist.get_rank())
            inputs = torch.randn(4, WIDTH, generator=generator)
            used = (0, 1) if uses is None else uses(step, number)
            with nullcontext() if number == wanted - 1 else model.no_sync():
                model(inputs, used).square().mean().backward()
        gradients += [p.grad.clone() for p in model.parameters() if p.grad is not None]
        optimizer.step()
    return gradients
