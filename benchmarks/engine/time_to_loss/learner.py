# SPDX-License-Identifier: Apache-2.0
"""One rank of a job that trains until its validation loss is low enough: `learner TASK WAY SEED`.

Ways: `gloo:MB` is DDP on Gloo with buckets of so many MB, `ringtune` the same program on the backend "ringtune", and
`optimizer` ringtune's distributed optimizer. Rank 0 prints the seconds in which steps were taken, validation aside, and
their number.
"""

import json
import sys
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd

from .tasks import TASKS

STEPS_PER_LOOK = 10
WARMUP_STEPS = 5
MOST_STEPS = 4000


def prepared(way: str, model: nn.Module, learning_rate: float) -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the trained module, and its optimizer."""
    if way == "optimizer":
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        adam = torch.optim.Adam(model.parameters(), lr=learning_rate)
        return model, hvd.DistributedOptimizer(adam, named_parameters=model.named_parameters())
    backend, _, bucket_mb = way.partition(":")
    dist.init_process_group(backend)
    model = DistributedDataParallel(model, bucket_cap_mb=float(bucket_mb or 25))
    return model, torch.optim.Adam(model.parameters(), lr=learning_rate)


def main() -> None:
    """Train; print."""
    name, way, seed = sys.argv[1], sys.argv[2], int(sys.argv[3])
    torch.set_num_threads(1)
    hvd.init()
    task = TASKS[name]()
    torch.manual_seed(seed)
    model, optimizer = prepared(way, task.model(), task.learning_rate)
    batches = task.batches(seed, hvd.rank(), hvd.size())
    seconds, begin_s = 0.0, time.perf_counter()
    for step in range(1, MOST_STEPS + 1):
        inputs, targets = next(batches)
        optimizer.zero_grad()
        task.loss(model(inputs), targets).backward()
        optimizer.step()
        if step == WARMUP_STEPS:
            hvd.barrier()
            begin_s = time.perf_counter()
        if step % STEPS_PER_LOOK == 0:
            hvd.barrier()
            seconds += time.perf_counter() - begin_s
            if task.validation_loss(model) <= task.target:  # equal on all ranks, as their weights are
                break
            hvd.barrier()
            begin_s = time.perf_counter()
    else:
        raise SystemExit(f"{name} did not reach a loss of {task.target} in {MOST_STEPS} steps")
    if hvd.rank() == 0:
        sys.stdout.write(json.dumps({"seconds": seconds, "steps": step - WARMUP_STEPS}) + "\n")
    hvd.shutdown()


if __name__ == "__main__":
    main()
