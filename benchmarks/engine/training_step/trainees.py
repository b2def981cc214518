# SPDX-License-Identifier: Apache-2.0
"""One trainee per way to reduce gradients, each with a model, an optimizer and hooks of its own.

No parameter has the hooks of two ways, and no buffer is shared, so that a way that does not have its turn is idle.
All begin with the same weights and take the same batches: after as many steps, DDP's and ringtune's weights are equal
to the last bit.
"""

import hashlib
import time
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from benchmarks.engine.training_step.jobs import TrainingJob


class Trainee:
    """A model that is trained in one way."""

    def __init__(self, way: str, job: TrainingJob, rank: int) -> None:
        """Prepare the first step; torch's process group and ringtune's world are there.

        Args:
            way: One of `ways.WAYS`.
            job: Model and data.
            rank: The rank whose batches are used.
        """
        self.weights = job.model()
        optimizer: Any = job.make_optimizer(self.weights.parameters())
        self._model: nn.Module = self.weights
        self._meet: Callable[[], Any] | None = None
        if way == "in step":
            self._meet = dist.barrier
        if way == "ddp":
            self._model = DistributedDataParallel(self.weights)
        if way == "ringtune":
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=self.weights.named_parameters())
        self._optimizer = optimizer
        self._batches = job.batches(rank)
        self._loss = job.loss
        self.steps = 0
        """Steps that were trained so far."""

    def step(self) -> tuple[float, ...]:
        """Train one step and return the seconds of its `PARTS`."""
        inputs, targets = self._batches[self.steps % len(self._batches)]
        self.steps += 1
        begun_s = time.perf_counter()
        self._optimizer.zero_grad()
        loss = self._loss(self._model(inputs), targets)
        forward_s = time.perf_counter()
        loss.backward()
        backward_s = time.perf_counter()
        self._optimizer.step()
        if self._meet is not None:
            self._meet()
        ended_s = time.perf_counter()
        return forward_s - begun_s, backward_s - forward_s, ended_s - backward_s


def weights_digest(model: nn.Module) -> str:
    """Return a digest of a model's weights, to the last bit."""
    digest = hashlib.sha256()
    for weight in model.state_dict().values():
        digest.update(weight.numpy().tobytes())
    return digest.hexdigest()
