# SPDX-License-Identifier: Apache-2.0
"""Trains with the tuner on, without torch, until the tuner is done or the time is up; results must stay exact.

Arguments: gradients per step, seconds, and `marked` or `unmarked` steps. TEST_COMPUTE_MS is how long each computes,
milliseconds; 0 unless given.
"""

import os
import sys
import time
from array import array

from ringtune.session.session import SESSION
from ringtune.world.world import World
from tests.integration.plain_rank import allreduce, join, say, submit, wait

COUNT = 2000


def train_step(world: World, gradients: int, step: int) -> None:
    """Submit a step's gradients and require their exact sums."""
    memories = [array("d", [float(world.rank + n + step)]) * COUNT for n in range(gradients)]
    handles = [submit(world, f"gradient.{n}", memory, is_gradient=True) for n, memory in enumerate(memories)]
    for n, handle in enumerate(handles):
        wait(world, handle)
        expected = float(sum(rank + n + step for rank in range(world.size)))
        assert array("d", [expected]) * COUNT == memories[n], (n, step)


def main() -> None:
    """Train, checking every sum, until the tuner has finished; rank 0 decides when the time is up."""
    gradients, seconds, mode = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
    compute_s = 1e-3 * float(os.environ.get("TEST_COMPUTE_MS", "0"))
    world = join()
    end_s = time.monotonic() + seconds
    is_in_time = True
    step = 0
    while is_in_time and not SESSION.is_tuning_finished:
        time.sleep(compute_s)
        train_step(world, gradients, step)
        if mode == "marked":
            world.engine.mark_step()
        step += 1
        if step % 20 == 0:
            is_early = world.rank == 0 and time.monotonic() < end_s
            is_in_time = allreduce(world, "is_in_time", [float(is_early)]) != [0.0]
    say(f"rank {world.rank}: {step} exact steps, epoch {world.engine.config_epoch()}")
    SESSION.shutdown()


main()
