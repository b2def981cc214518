# SPDX-License-Identifier: Apache-2.0
"""Joins while processes that have inherited the rank's variables call init(); joins again without these variables.

The inheritors print `KIND refused after SECONDS s: ERROR`, or `KIND joined`. Arguments: `inherit` for an inheritor.
"""

import multiprocessing
import os
import subprocess
import sys
import time

from ringtune.errors import ConfigError
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say

HELPER = [sys.executable, __file__, "inherit"]
PLACE_PREFIXES = ("RINGTUNE_", "TORCHELASTIC", "MASTER_", "RANK", "WORLD_SIZE", "OMPI_", "PMI")
BEFORE = dict(os.environ)


def inherit(kind: str) -> None:
    """Call init() with whatever variables this process has."""
    began_s = time.monotonic()
    try:
        SESSION.init()
    except ConfigError as error:
        say(f"{kind} refused after {time.monotonic() - began_s:.1f} s: {error}")
        return
    say(f"{kind} joined as rank {SESSION.require().rank} of {SESSION.require().size}")
    SESSION.shutdown()


def fork_now(kind: str, wait_for: int | None = None) -> int:
    """Fork a child that inherits, once a descriptor has ended where one is named; return its process id."""
    pid = os.fork()
    if pid == 0:
        if wait_for is not None:
            os.read(wait_for, 1)
        inherit(kind)
        os._exit(0)
    return pid


def main() -> None:
    """Join, let inheritors of every kind try, and go on."""
    read_end, write_end = os.pipe()
    earlier_child = fork_now("earlier child", read_end)
    world = join()
    os.write(write_end, b"!")
    os.waitpid(earlier_child, 0)
    subprocess.run([*HELPER, "program"], check=True)
    subprocess.run([*HELPER, "earlier environment"], check=True, env=BEFORE)
    worker = multiprocessing.get_context("spawn").Process(target=inherit, args=("worker",))
    worker.start()
    worker.join()
    assert [world.size * 1.0] == allreduce(world, "the job goes on", [1.0])
    SESSION.shutdown()
    os.waitpid(fork_now("later child"), 0)
    for name in [name for name in os.environ if name.startswith(PLACE_PREFIXES)]:
        del os.environ[name]
    world = join()
    assert [world.size * 1.0] == allreduce(world, "the job is there again", [1.0])
    say(f"rank {world.rank} of {world.size} is back")
    SESSION.shutdown()


if __name__ == "__main__":
    if sys.argv[1:2] == ["inherit"]:
        inherit(sys.argv[2])
    else:
        main()
