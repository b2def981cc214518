# SPDX-License-Identifier: Apache-2.0
"""Measure one job under the default settings, under tuned ones and under PyTorch's own DDP, in turn.

Duty: the last lines of the demo. Every round trains the digits job for a few steps in each way, so that a machine that
becomes slower in between slows down all three. It runs under `ringtune run`, and does not tune.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from itertools import cycle
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from digits import BATCH_SIZE, DEPTH, WIDTH, Digits, residual_mlp
from training import Batch

SETTLE_STEPS = 5
LEAST_ROUNDS = 3  # for an interval at all; with two it is as wide as any difference
LEARNING_RATE = 0.01
Step = Callable[[Batch], None]


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Steps per second: default settings, tuned ones, and plain DDP.")
    parser.add_argument(
        "--tuned", nargs="*", default=[], metavar="NAME=VALUE", help="settings to paste; none leaves it out"
    )
    parser.add_argument("--rounds", type=int, default=9, help="most rounds")
    parser.add_argument("--seconds", type=float, default=60.0, help="no round begins after them, but the first three")
    parser.add_argument("--steps", type=int, default=20, help="measured in each way and round")
    parser.add_argument("--store", type=Path, required=True, help="a file that is not there, where DDP's ranks meet")
    parser.add_argument("--report", type=Path, required=True, metavar="FILE", help="rank 0 writes the rates as JSON")
    return parser.parse_args()


def trained(model: nn.Module, optimizer: torch.optim.Optimizer) -> Step:
    """Return a function that takes one step."""

    def step(batch: Batch) -> None:
        inputs, targets = batch
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs), targets).backward()
        optimizer.step()

    return step


def new_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    """Return the demo's model, equal on all ranks, and its optimizer."""
    torch.manual_seed(0)
    model = residual_mlp(WIDTH, DEPTH)
    return model, torch.optim.SGD(model.parameters(), lr=LEARNING_RATE, momentum=0.9)


def steps_per_s(step: Step, batches: Iterator[Batch], steps: int) -> float:
    """Take some steps to settle, then time so many."""
    for _ in range(SETTLE_STEPS):
        step(next(batches))
    started_s = time.monotonic()
    for _ in range(steps):
        step(next(batches))
    return steps / (time.monotonic() - started_s)


def with_engine(settings: Mapping[str, str], batches: Iterator[Batch], steps: int) -> float:
    """Return the speed on an engine with these settings; the engine lives as long as the measurement."""
    os.environ.update(settings)
    hvd.init()
    model, optimizer = new_model()
    reduced = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    found = steps_per_s(trained(model, reduced), batches, steps)
    hvd.shutdown()
    for name in settings:
        del os.environ[name]
    return found


def with_ddp(batches: Iterator[Batch], steps: int) -> float:
    """Return the speed under plain DistributedDataParallel on Gloo."""
    model, optimizer = new_model()
    return steps_per_s(trained(DistributedDataParallel(model), optimizer), batches, steps)


def rounds(most: int, seconds: float) -> Iterator[int]:
    """Yield the numbers of the rounds, as many on all ranks: rank 0's clock decides whether there is one more."""
    started_s = time.monotonic()
    for number in range(most):
        is_due = torch.tensor(number < LEAST_ROUNDS or time.monotonic() - started_s < seconds, dtype=torch.int32)
        dist.broadcast(is_due, src=0)
        if not is_due:
            return
        yield number


def main() -> None:
    """Measure on this rank; rank 0 reports."""
    arguments = parse_arguments()
    torch.set_num_threads(1)
    hvd.init()
    rank = hvd.rank()
    batches = cycle(list(Digits.load().batches(0, 0, BATCH_SIZE)))
    dist.init_process_group("gloo", init_method=f"file://{arguments.store}", rank=rank, world_size=hvd.size())
    hvd.shutdown()
    tuned = dict(setting.split("=", 1) for setting in arguments.tuned)
    found: dict[str, list[float]] = {"default": [], "tuned": [], "ddp": []}
    for _ in rounds(arguments.rounds, arguments.seconds):
        found["default"].append(with_engine({}, batches, arguments.steps))
        if tuned:
            found["tuned"].append(with_engine(tuned, batches, arguments.steps))
        found["ddp"].append(with_ddp(batches, arguments.steps))
    dist.destroy_process_group()
    if rank == 0:
        arguments.report.write_text(json.dumps(found) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
