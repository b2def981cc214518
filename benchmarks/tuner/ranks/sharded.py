# SPDX-License-Identifier: Apache-2.0
"""One rank under FSDP2 on Gloo: trains a number of steps, tuned or not, and times the last ones.

Arguments: rank, number of ranks, file of the meeting, and the task as JSON. Rank 0 writes the outcome as JSON.
"""

import gc
import json
import sys
import time
from dataclasses import asdict, dataclass
from itertools import pairwise
from statistics import median
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

from ringtune.fsdp import autotune

BATCH = 16


@dataclass(frozen=True)
class ShardedTask:
    """A launch.

    Attributes:
        is_tuned: Whether the tuner runs.
        width: Features of a layer.
        layers: Number of layers, each a group of parameters.
        steps: Steps before the timed ones; the tuner decides within them.
        timed_steps: Steps that are timed, at the end.
        seed: Seed of the tuner.
    """

    is_tuned: bool
    width: int
    layers: int
    steps: int
    timed_steps: int
    seed: int

    def to_argument(self) -> str:
        """Return it as one argument of a command line."""
        return json.dumps(asdict(self))


def make_model(task: ShardedTask, ranks: int) -> torch.nn.Module:
    """Return a perceptron after `fully_shard` on each layer and on itself."""
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(task.width, task.width), torch.nn.ReLU()) for _ in range(task.layers)]
    model = torch.nn.Sequential(*layers)
    mesh = init_device_mesh("cpu", (ranks,))
    for layer in layers:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def part(parameter: Any) -> torch.Tensor:
    """Return this rank's part of a sharded parameter."""
    found: torch.Tensor = parameter.detach().to_local()
    return found


def train(task: ShardedTask, ranks: int) -> dict[str, Any]:
    """Train, and return the outcome."""
    model = make_model(task, ranks)
    tuner = autotune(model, max_steps=task.steps, seed=task.seed) if task.is_tuned else None
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.001)
    inputs = torch.randn(BATCH, task.width, generator=torch.Generator().manual_seed(dist.get_rank()))
    ends_s = [time.monotonic()]
    for _ in range(task.steps + task.timed_steps):
        optimizer.zero_grad()
        model(inputs).square().mean().backward()
        optimizer.step()
        ends_s.append(time.monotonic())
    config: dict[str, Any] = {}
    if tuner is not None:
        config = dict(tuner.config or {})
        tuner.close()
    step_ms = [(end_s - begin_s) * 1e3 for begin_s, end_s in pairwise(ends_s)]
    return {
        "step_ms": median(step_ms[task.steps :]),
        "total_s": ends_s[-1] - ends_s[0],
        "config": config,
        "weights": sum(float(part(p).double().sum()) for p in model.parameters()),
    }


def main() -> None:
    """Join the job, train, and leave it."""
    rank, ranks, store, argument = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    outcome = train(ShardedTask(**json.loads(argument)), ranks)
    if rank == 0:
        print(json.dumps(outcome), flush=True)
    gc.collect()  # a model that outlives its group can abort the interpreter's exit
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
