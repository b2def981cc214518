# SPDX-License-Identifier: Apache-2.0
"""One rank of `benchmarks.engine.training_step`: blocks of steps, one block of each way per round.

torchrun starts it: `ranks/turns.py JOB SECONDS`. Rank 0 prints a JSON object.
"""

import gc
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

import torch
import torch.distributed as dist

import ringtune.torch as hvd
from benchmarks.engine.training_step.jobs import JOBS
from benchmarks.engine.training_step.trainees import Trainee, weights_digest
from benchmarks.engine.training_step.ways import PARTS, WAYS
from ringtune.session.session import SESSION

SETTLING_STEPS = 4  # until gradients have registered memory, and DDP has built its buckets anew
BLOCK_S = 0.6
"""About how long the measured steps of a block take, seconds."""
MIN_BLOCK_STEPS, MAX_BLOCK_STEPS = 2, 100

Block = Mapping[str, float]


def from_rank_0(value: float) -> float:
    """Return rank 0's value on every rank."""
    broadcast = torch.tensor(value, dtype=torch.float64)
    dist.broadcast(broadcast, src=0)
    return broadcast.item()


def block_of(trainee: Trainee, steps: int) -> Block:
    """Train one step to warm up and then a block, and return the mean milliseconds of a step and of its parts."""
    dist.barrier()
    trainee.step()
    processor_s = time.process_time()
    parts_s = [trainee.step() for _ in range(steps)]
    means_s = [fsum(part) / steps for part in (*zip(*parts_s, strict=True), [time.process_time() - processor_s])]
    means = torch.tensor(means_s, dtype=torch.float64)
    dist.all_reduce(means)
    *parts_ms, processor_ms = (means / dist.get_world_size() * 1e3).tolist()
    return {"step": fsum(parts_ms), **dict(zip(PARTS, parts_ms, strict=True)), "processor": processor_ms}


def measure(trainees: Mapping[str, Trainee], seconds: float) -> tuple[int, Sequence[Mapping[str, Block]]]:
    """Return the steps of a block, and each round's blocks by way; every round has a random order of its own."""
    for trainee in trainees.values():
        step_s = [sum(trainee.step()) for _ in range(SETTLING_STEPS)][-1]
    steps = int(from_rank_0(min(MAX_BLOCK_STEPS, max(MIN_BLOCK_STEPS, round(BLOCK_S / step_s)))))
    gc.collect()
    gc.freeze()
    order = random.Random(0)  # noqa: S311  (an order of turns, no secret)
    rounds: list[Mapping[str, Block]] = []
    begun_s = time.perf_counter()
    SESSION.require().engine.laps.start()
    while from_rank_0(time.perf_counter() - begun_s) < seconds:
        rounds.append({way: block_of(trainees[way], steps) for way in order.sample(WAYS, len(WAYS))})
    return steps, rounds


def main() -> None:
    """Measure on every rank; print on rank 0."""
    name, seconds = sys.argv[1], float(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    hvd.init()
    trainees = {way: Trainee(way, JOBS[name], hvd.rank()) for way in WAYS}
    steps, rounds = measure(trainees, seconds)
    laps = SESSION.require().engine.laps.seconds()
    trained = trainees["ringtune"].steps
    weights: list[Any] = [None] * hvd.size()
    dist.all_gather_object(weights, {way: weights_digest(trainee.weights) for way, trainee in trainees.items()})
    if hvd.rank() == 0:
        found = {
            "title": JOBS[name].title,
            "ranks": hvd.size(),
            "steps": steps,
            "rounds": rounds,
            "laps_ms": {lap: laps_s / (trained - SETTLING_STEPS) * 1e3 for lap, laps_s in laps.items()},
            "trained": trained,
            "weights": weights,
            "is_equal": len({own[way] for own in weights for way in ("ddp", "ringtune")}) == 1,
        }
        print(json.dumps(found))
    hvd.shutdown()
    del trainees
    gc.unfreeze()
    gc.collect()  # a model that outlives its group can abort the interpreter's exit
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
