# SPDX-License-Identifier: Apache-2.0
"""One rank of unmodified DDP on Gloo, whose buckets a scheme tunes live from a thread of rank 0."""

import gc
import json
import os
import sys
import threading

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.tuner.live.schemes import conduct
from benchmarks.tuner.live.task import MARK, LiveTask
from ringtune.ddp.buckets import bucket_space
from ringtune.ddp.model import TARGET_NAME, DdpModel
from ringtune.ddp.reducers import bucket_sizes
from ringtune.measuring.bench.network import INTERFACE
from ringtune.tuning.job.windows import WindowBuilder
from ringtune.tuning.model.control import ControlGroup
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.follower import Follower, FollowerLinks
from ringtune.tuning.model.step_clock import HostSteps
from ringtune.tuning.model.target import LiveTarget

PORT = 29_500  # nothing else runs in this network
TIMEOUT_S = 600.0
BATCH = 16
TENSOR_SET = 1


def make_model(task: LiveTask) -> DistributedDataParallel:
    """Return a stack of layers of one width."""
    layers = [part for _ in range(task.layers) for part in (torch.nn.Linear(task.width, task.width), torch.nn.ReLU())]
    return DistributedDataParallel(torch.nn.Sequential(*layers))


def tune(task: LiveTask, model: DistributedDataParallel, exchange: Exchange) -> None:
    """Conduct the scheme, print its outcome, and let all ranks end."""
    try:
        sizes, size = bucket_sizes(model), DdpModel(model).gradient_bytes()
        space = bucket_space(sizes, size, is_fixed=False)
        builder, words_of = WindowBuilder(size, TENSOR_SET), DdpModel(model).words_of
        target = LiveTarget(TARGET_NAME, exchange, space, sizes.to_config(), builder, words_of=words_of)
        found = conduct(target, task.scheme, [], task.seed, task.steps)
        sys.stdout.write(MARK + json.dumps(found.to_json()) + "\n")
        sys.stdout.flush()
    finally:
        exchange.end()


def train(task: LiveTask, rank: int) -> None:
    """Train until the scheme is through."""
    model = make_model(task)
    exchange = Exchange(bucket_sizes(model).words())
    links = FollowerLinks(
        exchange if rank == 0 else None, HostSteps(), lambda text: print(text, file=sys.stderr, flush=True)
    )
    follower = Follower(ControlGroup(model.process_group, TIMEOUT_S), DdpModel(model), links)
    follower.follow()
    tuner = threading.Thread(target=tune, args=(task, model, exchange), name="live tuner", daemon=True)
    if rank == 0:
        tuner.start()
    inputs = torch.randn(BATCH, task.width)
    while not follower.is_over:
        model.zero_grad()
        model(inputs).square().mean().backward()
    if rank == 0:
        tuner.join()


def main() -> None:
    """Join the job, train, and leave it."""
    task = LiveTask.from_argument(sys.argv[1])
    rank, world_size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE
    torch.set_num_threads(1)
    torch.manual_seed(0)
    method = f"tcp://{task.address}:{PORT}"
    dist.init_process_group("gloo", init_method=method, rank=rank, world_size=world_size)
    train(task, rank)
    gc.collect()  # a model that outlives its group can hang or abort the interpreter's exit
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
