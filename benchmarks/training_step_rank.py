# SPDX-License-Identifier: Apache-2.0
"""One rank of `benchmarks.training_step`: the large text transformer, its gradients reduced in one way.

torchrun starts it, with PYTHONPATH=examples: `training_step_rank.py WAY STEPS`. Rank 0 prints the median step in
milliseconds.
"""

import gc
import os
import sys
import time
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from text_transformer import LARGE, CharacterTransformer, next_character_loss

CHARACTERS = 128
BATCH_SIZE = 8
WARM_UP_STEPS = 10
ENGINE_WAYS = ("in step", "ringtune")


def prepare(way: str, model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the model and its optimizer as the way has them: `floor` and `in step` reduce nothing."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    if way == "ddp":
        dist.init_process_group("gloo")
        return DistributedDataParallel(model), optimizer
    if way in ENGINE_WAYS:
        hvd.init()
    if way == "ringtune":
        return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return model, optimizer


def train(way: str, steps: int) -> None:
    """Train as long as asked, in the way asked for; rank 0 prints the median step, milliseconds."""
    model, optimizer = prepare(way, CharacterTransformer(LARGE, CHARACTERS))
    windows = torch.randint(CHARACTERS, (BATCH_SIZE, LARGE.context + 1))
    times_s = []
    for _ in range(WARM_UP_STEPS + steps):
        start_s = time.perf_counter()
        optimizer.zero_grad()
        next_character_loss(model(windows[:, :-1]), windows[:, 1:]).backward()
        optimizer.step()
        if way == "in step":
            hvd.barrier()
        times_s.append(time.perf_counter() - start_s)
    if os.environ["RANK"] == "0":
        print(median(times_s[WARM_UP_STEPS:]) * 1e3)


def main() -> None:
    """Train, and leave the job."""
    way, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    train(way, steps)
    if way == "ddp":
        gc.collect()  # a model that outlives its group can abort the interpreter's exit
        dist.destroy_process_group()
    if way in ENGINE_WAYS:
        hvd.shutdown()


if __name__ == "__main__":
    main()
