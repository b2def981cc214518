# SPDX-License-Identifier: Apache-2.0
"""Adds up, step by step, through meetings of a varying number of workers, until rank 0 finds a file named `stop`.

Prints each world that it joins and each error that ends one. In the folder that the argument names, each worker leaves
a file SIZE.RANK.PID for each world.
"""

import os
import sys
from pathlib import Path

from ringtune.errors import DismissedError, EngineError
from ringtune.session.session import SESSION
from ringtune.world.world import World
from tests.integration.plain_rank import allreduce, join, say

FOLDER = Path(sys.argv[1])


def train(world: World, step: int) -> tuple[int, bool]:
    """Step until the job changes or is over; return the number of steps and whether it is over."""
    [first] = allreduce(world, "state", [float(step if world.rank == 0 else 0)])
    step = int(first)
    say(f"world of {world.size}: rank {world.rank} goes on")
    (FOLDER / f"{world.size}.{world.rank}.{os.getpid()}").touch()
    while True:
        client = SESSION.rendezvous
        is_told = client is not None and client.has_update()
        is_over = world.rank == 0 and (FOLDER / "stop").exists()
        updated, over = allreduce(world, "step", [float(is_told), float(is_over)])
        step += 1
        if updated or over:
            return step, bool(over)


def main() -> None:
    """Meet, train, and meet again."""
    step, is_over = 0, False
    while not is_over:
        try:
            step, is_over = train(join(), step)
        except DismissedError as error:
            say(f"dismissed: {error}")
            return
        except EngineError as error:
            say(f"{type(error).__name__}: {error}")
        SESSION.shutdown()
    say("over")


main()
