# SPDX-License-Identifier: Apache-2.0
"""One rank of `benchmarks.engine.training_step`: the large text transformer, its gradients reduced in one way.

torchrun starts it, with PYTHONPATH=examples: `ranks/training_step.py WAY STEPS`. Rank 0 prints a JSON object with the
median step and its parts in milliseconds.
"""

import gc
import json
import os
import sys
import time
from collections.abc import Mapping
from statistics import median

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from ringtune.session import SESSION
from text_transformer import LARGE, CharacterTransformer, next_character_loss

CHARACTERS = 128
BATCH_SIZE = 8
WARM_UP_STEPS = 10
ENGINE_WAYS = ("in step", "ringtune")
PARTS = ("forward", "backward", "optimizer")
"""Parts of a step; the optimizer's includes the wait for gradients that are not reduced yet."""


def prepare(way: str, model: nn.Module) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return a way's model and optimizer; `floor` and `in step` reduce nothing."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    if way == "ddp":
        dist.init_process_group("gloo")
        return DistributedDataParallel(model), optimizer
    if way in ENGINE_WAYS:
        hvd.init()
    if way == "ringtune":
        return model, hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    return model, optimizer


def train(way: str, steps: int) -> Mapping[str, float]:
    """Train as long as asked, in the way asked for; return the median step and its parts, milliseconds.

    Where the engine reduces, `engine_…` are its own laps per step: what its communication thread did, mostly beside
    the parts.
    """
    model, optimizer = prepare(way, CharacterTransformer(LARGE, CHARACTERS))
    windows = torch.randint(CHARACTERS, (BATCH_SIZE, LARGE.context + 1))
    times_s = []
    for step in range(WARM_UP_STEPS + steps):
        if way == "ringtune" and step == WARM_UP_STEPS:
            SESSION.require().engine.laps.start()
        begun_s = time.perf_counter()
        optimizer.zero_grad()
        loss = next_character_loss(model(windows[:, :-1]), windows[:, 1:])
        forward_s = time.perf_counter()
        loss.backward()
        backward_s = time.perf_counter()
        optimizer.step()
        if way == "in step":
            hvd.barrier()
        ended_s = time.perf_counter()
        times_s.append((ended_s - begun_s, forward_s - begun_s, backward_s - forward_s, ended_s - backward_s))
    medians = zip(("step", *PARTS), zip(*times_s[WARM_UP_STEPS:], strict=True), strict=True)
    found = {name: median(values) * 1e3 for name, values in medians}
    if way == "ringtune":
        laps = SESSION.require().engine.laps.seconds()
        found |= {f"engine_{lap}": seconds / steps * 1e3 for lap, seconds in laps.items()}
    return found


def main() -> None:
    """Train, and leave the job."""
    way, steps = sys.argv[1], int(sys.argv[2])
    torch.set_num_threads(1)
    torch.manual_seed(0)
    found = train(way, steps)
    if os.environ["RANK"] == "0":
        print(json.dumps(found))
    if way == "ddp":
        gc.collect()  # a model that outlives its group can abort the interpreter's exit
        dist.destroy_process_group()
    if way in ENGINE_WAYS:
        hvd.shutdown()


if __name__ == "__main__":
    main()
