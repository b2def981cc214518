# SPDX-License-Identifier: Apache-2.0
"""Prints whether the job key is seen after `init()`: by its environment, C code, children; then joins again.

With an argument it starts a job of its own, by `ringtune run`, while it is a rank.
"""

import ctypes
import multiprocessing
import os
import subprocess
import sys

from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, say

NAME = "RINGTUNE_JOB_KEY"
CHILD_JOB = (
    "from ringtune.session.session import SESSION as s; s.init(); print('a rank of', s.require().size); s.shutdown()"
)


def worker_environment() -> None:
    """Say, in a worker, whether the key is there."""
    say(f"worker {NAME in os.environ}")


def main() -> None:
    """Join twice, and look each time."""
    key = os.environ.get(NAME, "none")
    libc = ctypes.CDLL(None)
    libc.getenv.restype = ctypes.c_char_p
    for _ in range(2):
        SESSION.init()
        world = SESSION.require()
        assert [float(world.size)] == allreduce(world, "joined", [1.0])
        say(f"here {NAME in os.environ} {libc.getenv(NAME.encode())} {key in os.environ.values()}")
        listing = subprocess.run(["env"], capture_output=True, text=True, check=True).stdout
        say(f"child {NAME in listing} {key in listing}")
        worker = multiprocessing.get_context("spawn").Process(target=worker_environment)
        worker.start()
        worker.join()
        if len(sys.argv) > 1 and world.rank == 0:
            inner = [sys.executable, "-m", "ringtune", "run", "-np", "2", sys.executable, "-c", CHILD_JOB]
            subprocess.run(inner, check=True)
        SESSION.shutdown()


if __name__ == "__main__":
    main()
