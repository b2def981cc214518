# SPDX-License-Identifier: Apache-2.0
"""Trains by the backend "ringtune" until the tuner has decided; no line of it is about tuning, but for the end.

Usage: tunes.py MODEL MEETING-FILE, where MODEL is one of `own` (collectives of its own), `two` (likewise, two
optimizers), `marked` (likewise, steps are marked by hand), `ddp` and `fsdp`.
"""

import os
import sys

import torch
from torch import distributed as dist
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ringtune
from ringtune.session.session import SESSION
from tests.integration.plain_rank import say

LOOK_STEPS = 10
WIDTH = 32


def wrapped(kind: str) -> torch.nn.Module:
    """Return the model."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(*(torch.nn.Linear(WIDTH, WIDTH) for _ in range(4)))
    if kind == "fsdp":
        for layer in model:
            fully_shard(layer)
        return fully_shard(model)  # type: ignore[return-value]
    return DistributedDataParallel(model) if kind == "ddp" else model


def train_step(kind: str, model: torch.nn.Module, optimizers: list[torch.optim.SGD]) -> None:
    """Do one step of training."""
    for optimizer in optimizers:
        optimizer.zero_grad()
    model(torch.full((2, WIDTH), 0.1 * (dist.get_rank() + 1))).square().mean().backward()
    if kind not in {"ddp", "fsdp"}:
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.AVG)
    for optimizer in optimizers:
        optimizer.step()
    if kind == "marked":
        ringtune.mark_step()


def main() -> None:
    """Train, and print the ranks' common config."""
    kind, meeting = sys.argv[1:]
    torch.set_num_threads(1)
    rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
    dist.init_process_group("ringtune", init_method=f"file://{meeting}", rank=rank, world_size=size)
    model = wrapped(kind)
    parameters = list(model.parameters())
    parts = [parameters[::2], parameters[1::2]] if kind == "two" else [parameters]
    optimizers = [torch.optim.SGD(part, lr=0.01) for part in parts]
    steps = 0
    while not SESSION.is_tuning_finished:
        for _ in range(LOOK_STEPS):
            train_step(kind, model, optimizers)
        steps += LOOK_STEPS
        dist.barrier()
    engine = SESSION.require().engine
    gathered = [None] * size
    weights = [[] if kind == "fsdp" else p.detach().flatten().tolist() for p in parameters]
    dist.all_gather_object(gathered, (engine.config().hash(), weights))
    assert gathered == gathered[:1] * size, gathered
    say(f"agreed, {engine.counters()['steps'] - steps} more marks than steps")
    dist.destroy_process_group()


main()
