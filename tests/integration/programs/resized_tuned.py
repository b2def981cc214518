# SPDX-License-Identifier: Apache-2.0
"""Trains with the tuner on in one world after the other, as an elastic job does that is resized.

Argument: a JSON array of objects of variables, the places of this process. A world ends once its tuner has measured
four configs of the search, or has decided.
"""

import json
import os
import sys
import threading
import time
from array import array

import ringtune.callbacks
from ringtune.session.session import SESSION
from ringtune.tuner import Phase, Progress
from ringtune.world.world import World
from tests.integration.plain_rank import allreduce, join, say, submit, wait

COUNT = 2000
GRADIENTS = 4
SEARCHED = 4
STEP_S = 0.002


class Watch(ringtune.callbacks.Callback):
    """Notes that the tuner has measured enough."""

    def __init__(self) -> None:
        self.enough = threading.Event()

    def progress(self, progress: Progress, moment: ringtune.callbacks.Moment) -> None:
        """Take the news."""
        del moment
        is_searched = progress.phase is Phase.SEARCH and progress.sample >= SEARCHED
        if is_searched or progress.phase in {Phase.ADOPTION, Phase.WATCH}:
            self.enough.set()


def train(world: World, watch: Watch) -> int:
    """Train until rank 0's tuner has measured enough; return the steps."""
    steps = 0
    while True:
        time.sleep(STEP_S)
        memories = [array("d", [float(world.rank + n + steps)]) * COUNT for n in range(GRADIENTS)]
        handles = [submit(world, f"gradient.{n}", memory, is_gradient=True) for n, memory in enumerate(memories)]
        for n, handle in enumerate(handles):
            wait(world, handle)
            assert memories[n][0] == float(sum(rank + n + steps for rank in range(world.size)))
        world.engine.mark_step()
        steps += 1
        is_over = world.rank == 0 and watch.enough.is_set()
        if steps % 20 == 0 and allreduce(world, "is_over", [float(is_over)]) != [0.0]:
            return steps


def main() -> None:
    """Train in each world."""
    for variables in json.loads(sys.argv[1]):
        os.environ.update(variables)
        watch = Watch()
        ringtune.callbacks.add(watch)
        world = join()
        steps = train(world, watch)
        say(f"rank {world.rank} of {world.size}: {steps} steps")
        SESSION.shutdown()
        ringtune.callbacks.remove(watch)


main()
