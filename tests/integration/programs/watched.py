# SPDX-License-Identifier: Apache-2.0
"""Trains, without torch, until a file is there: a job that others look at meanwhile. Every sum must be exact.

Arguments: the file; with `forking`, rank 0 also has a forked child that lives until then and must not serve metrics.
"""

import os
import sys
import time
from array import array
from pathlib import Path

from ringtune.session.session import SESSION
from ringtune.world.world import World
from tests.integration.plain_rank import allreduce, join, say, submit, wait

COUNT = 2000
GRADIENTS = 6


def train_step(world: World, step: int) -> None:
    """Submit a step's gradients and require their exact sums."""
    memories = [array("d", [float(world.rank + n + step)]) * COUNT for n in range(GRADIENTS)]
    handles = [submit(world, f"gradient.{n}", memory, is_gradient=True) for n, memory in enumerate(memories)]
    for n, handle in enumerate(handles):
        wait(world, handle)
        expected = float(sum(rank + n + step for rank in range(world.size)))
        assert array("d", [expected]) * COUNT == memories[n], (n, step)
    world.engine.mark_step()


def sockets() -> list[str]:
    """Return the internet sockets that this process has open, as the kernel numbers them."""
    tables = [Path(f"/proc/self/net/{name}").read_text(encoding="ascii").splitlines()[1:] for name in ("tcp", "tcp6")]
    known = {line.split()[9] for table in tables for line in table}
    targets = (str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink())
    return [target for target in targets if target.removeprefix("socket:[").removesuffix("]") in known]


def live_as_child(stop: Path) -> None:
    """Keep no socket, and live until the job ends."""
    found = sockets()
    if found:
        say(f"the child holds {found}")
        os._exit(1)
    say("the child holds no socket")
    while not stop.exists():
        time.sleep(0.05)
    os._exit(0)


def main() -> None:
    """Train; rank 0 decides when all stop."""
    stop = Path(sys.argv[1])
    world = join()
    child = os.fork() if sys.argv[2:] == ["forking"] and world.rank == 0 else None
    if child == 0:
        live_as_child(stop)
    goes_on = True
    step = 0
    while goes_on:
        train_step(world, step)
        step += 1
        if step % 20 == 0:
            goes_on = allreduce(world, "goes_on", [float(world.rank == 0 and not stop.exists())]) != [0.0]
    say(f"rank {world.rank}: {step} exact steps")
    SESSION.shutdown()
    if child is not None:
        _, status = os.waitpid(child, 0)
        assert 0 == os.waitstatus_to_exitcode(status)


main()
