# SPDX-License-Identifier: Apache-2.0
"""What the benchmarks' jobs train: a model of many small tensors, whose steps are short."""

import time

import torch
from torch import nn

import ringtune.torch as hvd

LAYERS, WIDTH, BATCH_SIZE = 24, 96, 16


class TrainingSteps:
    """Steps of a job on this rank, which has begun: gradients of 48 tensors, of 36 KiB and less."""

    def __init__(self) -> None:
        """Make the model, the same on each rank."""
        torch.set_num_threads(1)
        torch.manual_seed(0)
        layers = (layer for _ in range(LAYERS) for layer in (nn.Linear(WIDTH, WIDTH), nn.ReLU()))
        self._model = nn.Sequential(*layers)
        self._optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(self._model.parameters(), lr=1e-3), named_parameters=self._model.named_parameters()
        )
        self._inputs = torch.randn(BATCH_SIZE, WIDTH)

    def run(self, steps: int) -> list[float]:
        """Run so many steps and return how long each took, milliseconds."""
        return [self._run_one() for _ in range(steps)]

    def _run_one(self) -> float:
        begun_s = time.perf_counter()
        self._optimizer.zero_grad()
        self._model(self._inputs).square().mean().backward()
        self._optimizer.step()
        return 1e3 * (time.perf_counter() - begun_s)
