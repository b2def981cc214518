# SPDX-License-Identifier: Apache-2.0
"""Rank 1 is stopped while it combines; the others must not wait for it for ever, at exit least of all.

With the argument `own-mpi` the job has imported mpi4py by itself, so that mpi4py would finalise MPI.
"""

import importlib
import os
import signal
import sys
import time
from array import array

from ringtune.errors import EngineError
from tests.integration.plain_rank import join, say, submit, wait


def main() -> None:
    """Combine a little, then much; rank 1 does not get through that, for it never gives the last of it."""
    if sys.argv[1:] == ["own-mpi"]:
        importlib.import_module("mpi4py.MPI")
    memories = [array("d", [1.0]) * 4_000_000 for _ in range(4)]
    world = join()
    wait(world, submit(world, "before", memories[0]))
    given = memories[:-1] if world.rank == 1 else memories
    handles = [submit(world, f"large.{number}", memory) for number, memory in enumerate(given)]
    if world.rank == 1:
        time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGSTOP)
    try:
        for handle in handles:
            wait(world, handle)
    except EngineError as error:
        say(f"rank {world.rank}: {type(error).__name__}: {error}")
        raise


if __name__ == "__main__":
    main()
