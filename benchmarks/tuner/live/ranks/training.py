# SPDX-License-Identifier: Apache-2.0
"""One rank of a job of the zoo: trains a net under a front end until its tuner is through, and all was measured."""

import gc
import json
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import asdict

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.ddp
import ringtune.torch as hvd
from benchmarks.tuner.live.afterwards import Windows, long_search
from benchmarks.tuner.live.cells import BACKEND, DDP, ENGINE
from benchmarks.tuner.live.horovod import search_like_horovod
from benchmarks.tuner.live.nets import ZOO
from benchmarks.tuner.live.task import HOROVOD, MARK, LiveTask
from ringtune.measuring.bench.surface_rank import agree
from ringtune.session.session import SESSION
from ringtune.tuning.engine.ddp_buckets import DdpBuckets
from ringtune.tuning.engine.job import engine_space
from ringtune.tuning.engine.target import EngineTarget
from ringtune.world.engine_config import tuner_config
from ringtune.world.world import World

STEPS_BETWEEN = 10
"""Steps after which the ranks agree whether to go on."""
LEARNING_RATE = 1e-4

Step = Callable[[], None]


def training_step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: torch.Tensor) -> Step:
    """Return a step on one batch."""

    def step() -> None:
        optimizer.zero_grad()
        model(batch).square().mean().backward()
        optimizer.step()

    return step


class Measurements:
    """Rank 0's thread: Horovod's search, or the measurements after ringtune's.

    Attributes:
        is_over: Whether it has printed its results, or failed.
    """

    def __init__(self, world: World, task: LiveTask) -> None:
        """Begin."""
        self._world = world
        self._task = task
        self._thread = threading.Thread(target=self._run, name="measurements", daemon=True)
        self._thread.start()

    @property
    def is_over(self) -> bool:
        """True once the thread has ended."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        world, task = self._world, self._task
        space, baseline = engine_space(world, DdpBuckets(())), world.settings.baseline
        target = EngineTarget(world.engine, space, baseline, threading.Event())
        found: dict[str, object] = {}
        if task.scheme == HOROVOD:
            begin_s = time.monotonic()
            searched = search_like_horovod(target, task.seed, task.steps)
            seconds = round(time.monotonic() - begin_s, 2)
            found |= {"steps": searched.steps, "seconds": seconds, "cost_s": round(searched.cost_s, 3)}
            chosen = searched.config
        else:
            chosen = tuner_config(world.engine.config())
        windows = Windows(target)
        found["gain"] = asdict(windows.gain(chosen, task.max_pairs))
        if task.scheme != HOROVOD:
            best = long_search(windows, space, baseline, task.seed, task.max_pairs)
            found |= {"best": asdict(best.gain), "single_ratios": best.single_ratios}
        windows.leave(chosen)
        sys.stdout.write(MARK + json.dumps(found) + "\n")
        sys.stdout.flush()


def train_on_engine(task: LiveTask, model: nn.Module, batch: torch.Tensor) -> None:
    """Train by ringtune's optimizer."""
    hvd.init()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sgd = torch.optim.SGD(model.parameters(), lr=LEARNING_RATE)
    step = training_step(model, hvd.DistributedOptimizer(sgd, named_parameters=model.named_parameters()), batch)
    for _ in range(STEPS_BETWEEN):
        step()
    while not hvd.tuning_finished():
        step()
    world, measurements = SESSION.require(), None
    if world.rank == 0:
        if SESSION.autotune is not None:
            SESSION.autotune.stop()  # the watch would measure windows of its own
        measurements = Measurements(world, task)
    while not agree(world, int(measurements is not None and measurements.is_over)):
        for _ in range(STEPS_BETWEEN):
            step()
    hvd.shutdown()


def train_by_ddp(task: LiveTask, model: nn.Module, batch: torch.Tensor) -> None:
    """Train by DDP until the decision: on the backend "ringtune", or on Gloo with tuned buckets."""
    is_on_engine = task.front == BACKEND
    dist.init_process_group("ringtune" if is_on_engine else "gloo")
    wrapped = DistributedDataParallel(model)
    tuner = None if is_on_engine else ringtune.ddp.autotune(wrapped)
    step = training_step(wrapped, torch.optim.SGD(wrapped.parameters(), lr=LEARNING_RATE), batch)
    for _ in range(STEPS_BETWEEN):
        step()
    while not (hvd.tuning_finished() if tuner is None else tuner.is_finished):
        step()
    if tuner is not None:
        tuner.close()
    dist.barrier()
    del wrapped, step, tuner
    gc.collect()  # a model that outlives Gloo's group can hang or abort the interpreter's exit
    dist.destroy_process_group()


def main() -> None:
    """Train."""
    task = LiveTask.from_argument(sys.argv[1])
    torch.set_num_threads(1)
    torch.manual_seed(task.seed)
    net = ZOO[task.net]
    train = {ENGINE: train_on_engine, BACKEND: train_by_ddp, DDP: train_by_ddp}[task.front]
    train(task, nn.Sequential(*net.layers()), net.batch())


if __name__ == "__main__":
    main()
