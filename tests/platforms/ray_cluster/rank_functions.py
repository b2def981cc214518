# SPDX-License-Identifier: Apache-2.0
"""Functions and objects that the tests run on Ray's workers."""

import os
import signal
import time
from pathlib import Path
from typing import Any

import ray
import torch

import ringtune.torch as hvd
from tests.waiting import wait_until

PLACE_NAMES = ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE", "HOROVOD_CROSS_RANK")


def place() -> dict[str, Any]:
    """Join, and return where this rank is, by every way of asking."""
    hvd.init()
    return {
        "rank": hvd.rank(),
        "size": hvd.size(),
        "sum": hvd.allreduce(torch.ones(1), op=hvd.Sum).item(),
        "node": ray.get_runtime_context().get_node_id(),
        "pid": os.getpid(),
        "asked": (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank()),
        "told": tuple(int(os.environ[name]) for name in PLACE_NAMES),
        "meeting": (os.environ["RINGTUNE_RENDEZVOUS"], os.environ["RINGTUNE_JOB_DIGEST"]),
        "has_key": "RINGTUNE_JOB_KEY" in os.environ,
    }


def times(factor: int, *, offset: int = 0) -> int:
    """Return this rank, changed by arguments."""
    hvd.init()
    return hvd.rank() * factor + offset


def leave() -> None:
    """Leave the world."""
    hvd.shutdown()


def raise_on(rank: int) -> None:
    """Raise on one rank, while the others wait for it in a collective."""
    hvd.init()
    if hvd.rank() == rank:
        raise LookupError(f"mine, on rank {rank}")
    hvd.allreduce(torch.ones(1))


def leave_and_raise_late(file: str) -> None:
    """Leave on rank 1, and raise there only once the others have noticed.

    Args:
        file: File by which a rank tells that it has noticed.
    """
    hvd.init()
    if hvd.rank() == 1:
        hvd.shutdown()
        wait_until(Path(file).exists)
        time.sleep(0.5)  # its failure is on its way; the test passes in either order
        raise LookupError("mine, late")
    try:
        hvd.allreduce(torch.ones(1))
    finally:
        Path(file).touch()


def die_on(rank: int) -> None:
    """End one rank's process, while the others wait for it in a collective."""
    hvd.init()
    if hvd.rank() == rank:
        os._exit(3)
    hvd.allreduce(torch.ones(1))


def reduce_for_ever() -> None:
    """Reduce until a rank is lost."""
    hvd.init()
    while True:
        hvd.allreduce(torch.ones(1))


def variables(*names: str) -> dict[str, str | None]:
    """Return some environment variables of this process."""
    return {name: os.environ.get(name) for name in names}


def open_descriptors() -> int:
    """Return how many descriptors this process has."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208  (names alone)


class Training:
    """A model that lives on a worker between calls, trained on data of the rank's own."""

    def __init__(self, lr: float, *, momentum: float) -> None:
        """Make the model; all ranks begin with rank 0's parameters."""
        hvd.init()
        torch.manual_seed(hvd.rank())
        self.model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(self.model.parameters(), lr=lr, momentum=momentum)
        self.optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=self.model.named_parameters())
        hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)

    def step(self) -> None:
        """Make one step on random data."""
        self.optimizer.zero_grad()
        self.model(torch.randn(8, 4)).pow(2).mean().backward()
        self.optimizer.step()

    def weights(self) -> list[list[float]]:
        """Return the parameters."""
        return [parameter.detach().flatten().tolist() for parameter in self.model.parameters()]


def train_elastically(folder: str) -> dict[str, Any]:
    """Train until the folder has a file `end`; each world leaves a file that is named after its size.

    The worker with rank 1 in the first world kills itself after some steps.

    Args:
        folder: Folder that all workers see.
    """
    hvd.init()
    torch.manual_seed(hvd.rank())
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    @hvd.elastic.run
    def train(state: Any) -> None:
        state.sizes = [*state.sizes, hvd.size()]
        while True:
            is_end = hvd.allreduce(torch.tensor([float(Path(folder, "end").exists())]), op=hvd.Max, name="end")
            if is_end.item():
                return
            optimizer.zero_grad()
            model(torch.randn(8, 4)).pow(2).mean().backward()
            optimizer.step()
            state.step += 1
            if state.step == 20 and len(state.sizes) == 1 and hvd.rank() == 1:
                os.kill(os.getpid(), signal.SIGKILL)
            state.commit()
            Path(folder, f"{len(state.sizes)} of {hvd.size()}").touch()
            time.sleep(0.01)  # leaves the cores to the cluster

    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, step=0, sizes=[])
    train(state)
    weights = [parameter.detach().flatten().tolist() for parameter in model.parameters()]
    return {"rank": hvd.rank(), "step": state.step, "sizes": state.sizes, "weights": weights}


def tune_a_while(rate: float, seconds: float) -> float:
    """Train for a while under the tuner, and return the last loss.

    Args:
        rate: Learning rate; it does not change the key of the study.
        seconds: Training time on rank 0's clock.
    """
    hvd.init()
    torch.manual_seed(1)
    layers = [layer for _ in range(8) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    model = torch.nn.Sequential(*layers, torch.nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    end_s = time.monotonic() + seconds
    is_over, loss = False, torch.zeros(())
    while not is_over:
        for _ in range(20):
            inputs = torch.randn(8, 64)
            optimizer.zero_grad()
            loss = (model(inputs) - 1.0).pow(2).mean()
            loss.backward()
            optimizer.step()
        is_over = bool(hvd.broadcast(torch.tensor([time.monotonic() > end_s]), root_rank=0, name="over").item())
    result = hvd.allreduce(loss.detach()).item()
    hvd.shutdown()
    return float(result)
