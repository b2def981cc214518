# SPDX-License-Identifier: Apache-2.0
"""A small network and the joined batch of all ranks: training by DistributedOptimizer against training alone."""

from typing import Any

import torch
from torch.nn import functional

import ringtune.torch as hvd

STEPS = 6
ROWS = 8


def make_model() -> torch.nn.Module:
    """Return a small network with equal weights on all ranks."""
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2))


def batch(step: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the joined batch of all ranks."""
    generator = torch.Generator().manual_seed(step)
    rows = ROWS * hvd.size()
    return torch.randn(rows, 5, generator=generator), torch.randn(rows, 2, generator=generator)


def own_part(tensor: torch.Tensor) -> torch.Tensor:
    """Return this rank's rows."""
    return tensor[ROWS * hvd.rank() : ROWS * (hvd.rank() + 1)]


def loss_of(model: torch.nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return the mean loss over the rows."""
    return functional.mse_loss(model(inputs), targets)


def assert_same(ours: torch.nn.Module, alone: torch.nn.Module) -> None:
    """Require the parameters that were trained alone, up to rounding, and the same bits on all ranks."""
    for mine, expected in zip(ours.parameters(), alone.parameters(), strict=True):
        assert torch.allclose(expected, mine, rtol=1e-4, atol=1e-6), (expected - mine).abs().max()
        bits = hvd.allgather(mine.detach().reshape(1, -1))
        assert all(torch.equal(bits[0], row) for row in bits)


def sgd(parameters: Any) -> torch.optim.Optimizer:
    """Return SGD with everything on."""
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.01)
