# SPDX-License-Identifier: Apache-2.0
"""Joins, trains a step and leaves, many times; descriptors, threads and memory must not add up. Argument: how often."""

import gc
import resource
import sys
import threading
from pathlib import Path

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say

WARM_UP = 10  # the allocator's arenas and torch's caches are full by then
BYTES_PER_TIME = 4 * 1024  # about 1 KiB was seen; a leaked segment, tensor or thread stack is far above it


def descriptors() -> int:
    """Return the number of open descriptors."""
    return len(list(Path("/proc/self/fd").iterdir()))


def tasks() -> int:
    """Return the number of threads of the process, native ones included."""
    return len(list(Path("/proc/self/task").iterdir()))


def resident_bytes() -> int:
    """Return the bytes of memory that the process holds."""
    return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * resource.getpagesize()


def one_life(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> None:
    """Join, use every kind of state that a world has, and leave."""
    hvd.init()
    optimizer.zero_grad()
    parameter.sum().backward()
    optimizer.step()
    hvd.allgather(torch.ones(10))
    everyone = list(range(hvd.size()))
    part = hvd.add_process_set(everyone[1:]) if len(everyone) > 2 else None
    if part is not None and part.included():
        hvd.allreduce(torch.ones(1), process_set=part)
    hvd.allreduce_async(torch.ones(1000))  # nobody waits for it
    hvd.barrier()
    hvd.shutdown()


def main() -> None:
    """Repeat, and compare with the state after the first times."""
    torch.set_num_threads(1)
    times = int(sys.argv[1])
    parameter = torch.nn.Parameter(torch.ones(5))
    hvd.init()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1))
    hvd.shutdown()
    for _ in range(WARM_UP):
        one_life(optimizer, parameter)
    gc.collect()
    before = (descriptors(), tasks())
    before_bytes = resident_bytes()
    for _ in range(times):
        one_life(optimizer, parameter)
    gc.collect()
    assert before == (descriptors(), tasks()), (before, descriptors(), tasks(), threading.enumerate())
    grown = resident_bytes() - before_bytes
    assert grown < 2**20 + BYTES_PER_TIME * times, f"{grown} bytes more after {times} times"
    say(f"{times} times, {grown} bytes more")


main()
