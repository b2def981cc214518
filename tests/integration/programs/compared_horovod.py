# SPDX-License-Identifier: Apache-2.0
"""A script with Horovod's names that trains by all options of DistributedOptimizer that both arms have.

Arguments: the folder for each rank's result; the steps of each kind of training, or `dies`, to be killed in the arm
where the engine reduces gradients, or `adasum`.
"""

import json
import os
import signal
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import torch

import ringtune.torch as hvd

KINDS: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "sum": {"op": hvd.Sum},
    "accumulated": {"backward_passes_per_step": 3},
    "fp16": {"compression": hvd.Compression.fp16},
    "groups": {"num_groups": 2},
    "closure": {},
}


def train(kind: str, what: str) -> list[float]:
    """Train a model of its own and return its weights."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 4))
    optimizer: Any = torch.optim.SGD(model.parameters(), lr=0.05)
    if kind == "closure":
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters(), **KINDS[kind])
    if what == "dies" and hvd.rank() == 1 and not torch.distributed.is_initialized():
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    torch.manual_seed(hvd.rank())
    data = torch.randn(1000 if what == "dies" else int(what), 4, 8)
    for inputs in data:
        step(optimizer, partial(loss_of, model, inputs), kind)
    return [round(float(value), 3) for value in torch.cat([p.detach().flatten() for p in model.parameters()])]


def loss_of(model: torch.nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Return the loss."""
    loss: torch.Tensor = model(inputs).square().mean()
    return loss


def step(optimizer: Any, loss: Callable[[], torch.Tensor], kind: str) -> None:
    """Make one step."""
    if kind == "closure":

        def closure() -> torch.Tensor:
            optimizer.zero_grad()
            value = loss()
            value.backward()
            return value

        optimizer.step(closure)
        return
    optimizer.zero_grad()
    for _ in range(KINDS[kind].get("backward_passes_per_step", 1)):
        loss().backward()
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step()


def main(folder: Path, what: str) -> None:
    """Train by every kind."""
    hvd.init()
    if what == "adasum":
        hvd.DistributedOptimizer(torch.optim.SGD([torch.nn.Parameter(torch.zeros(4))], lr=0.1), op=hvd.Adasum)
    found = {kind: train(kind, what) for kind in KINDS}
    mean = hvd.allreduce(torch.tensor([float(hvd.rank())]), name="metric").item()
    written = {"weights": found, "metric": mean, "bytes": engine_bytes()}
    (folder / f"rank.{hvd.rank()}").write_text(json.dumps(written), encoding="utf-8")


def engine_bytes() -> int:
    """Return the bytes that this rank's engine has reduced."""
    from ringtune.session.session import SESSION

    return SESSION.require().engine.counters()["bytes_reduced"]


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
