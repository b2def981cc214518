# SPDX-License-Identifier: Apache-2.0
"""Allreduce ways: unmodified DistributedDataParallel over Gloo, and ringtune's optimizer, each with its defaults."""

import gc
import os
from hashlib import sha256

import torch
from torch import distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd

from .student import Batch, Student
from .trial import Role


class _Synchronous:
    """Steps of stochastic gradient descent on the average of all workers' gradients."""

    def __init__(self, workers: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self._workers, self._model, self._optimizer = workers, model, optimizer
        self._applied = 0
        self.staleness: list[int] = []

    def step(self, batch: Batch, rate: float) -> int:
        """Compute, reduce and apply; return how many gradients are in the parameters."""
        images, labels = batch
        for group in self._optimizer.param_groups:
            group["lr"] = rate * self._workers  # the average times this is the sum times `rate`
        self._optimizer.zero_grad()
        nn.functional.cross_entropy(self._model(images), labels).backward()
        self._optimizer.step()
        self._applied += self._workers
        return self._applied


class DdpWay(_Synchronous):
    """DistributedDataParallel over Gloo."""

    def __init__(self, role: Role, student: Student) -> None:
        """Join the process group and wrap the model."""
        os.environ["GLOO_SOCKET_IFNAME"] = role.interface
        method = f"file://{role.folder / 'gloo'}"
        dist.init_process_group("gloo", init_method=method, rank=role.number, world_size=role.trial.workers)
        model = DistributedDataParallel(student.model, gradient_as_bucket_view=True)
        super().__init__(role.trial.workers, model, torch.optim.SGD(model.parameters(), lr=0.0))

    def close(self) -> None:
        """Leave the process group."""
        del self._model, self._optimizer
        gc.collect()  # a model that outlives its group can abort the interpreter's exit
        dist.destroy_process_group()


class RingtuneWay(_Synchronous):
    """`ringtune.torch.DistributedOptimizer`."""

    def __init__(self, role: Role, student: Student) -> None:
        """Join the engine's job and wrap the optimizer."""
        os.environ |= {
            "RINGTUNE_RANK": str(role.number),
            "RINGTUNE_WORLD_SIZE": str(role.trial.workers),
            "RINGTUNE_RENDEZVOUS": f"tcp://{role.meeting}",
            "RINGTUNE_JOB_KEY": sha256(str(role.folder).encode()).hexdigest(),
        }
        hvd.init()
        optimizer = torch.optim.SGD(student.model.parameters(), lr=0.0)
        distributed = hvd.DistributedOptimizer(optimizer, named_parameters=student.model.named_parameters())
        super().__init__(role.trial.workers, student.model, distributed)

    def close(self) -> None:
        """Leave the job."""
        hvd.shutdown()
