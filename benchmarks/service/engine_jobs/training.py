# SPDX-License-Identifier: Apache-2.0
"""Small models for the benchmarks' jobs, whose steps mostly communicate or mostly compute."""

import time
from dataclasses import dataclass

import torch
from torch import nn

import ringtune.torch as hvd

LAYERS = 24


@dataclass(frozen=True)
class Size:
    """Size of a step's computation.

    Attributes:
        width: Width of each layer; a layer has two gradients, the larger with 4 * width ** 2 bytes.
        batch_size: Rows of each rank.
    """

    width: int
    batch_size: int


COMMUNICATING = Size(width=96, batch_size=16)
"""Size of steps of some milliseconds, mostly communication."""
COMPUTING = Size(width=512, batch_size=64)
"""Size of steps of some tens of milliseconds, mostly computation."""


class ModelSteps:
    """Steps of a job on this rank, which has begun."""

    def __init__(self, size: Size) -> None:
        """Make the model, the same on each rank."""
        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = (layer for _ in range(LAYERS) for layer in (nn.Linear(size.width, size.width), nn.ReLU()))
        self._model = nn.Sequential(*layers)
        self._optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self._model.parameters(), lr=1e-3), named_parameters=self._model.named_parameters()
        )
        self._inputs = torch.randn(size.batch_size, size.width)

    def run(self, steps: int) -> list[float]:
        """Run steps and return the duration of each, milliseconds."""
        return [self._run_one() for _ in range(steps)]

    def _run_one(self) -> float:
        begun_s = time.perf_counter()
        self._optimizer.zero_grad()
        self._model(self._inputs).square().mean().backward()
        self._optimizer.step()
        return 1e3 * (time.perf_counter() - begun_s)
