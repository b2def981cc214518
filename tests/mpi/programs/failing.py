# SPDX-License-Identifier: Apache-2.0
"""Rank 1 fails in the way that the argument names while the others are busy with work of their own, for ever.

With the argument `own-mpi` the job has imported mpi4py by itself, so that mpi4py would finalise MPI.
"""

import importlib
import signal
import sys

from tests.integration.plain_rank import allreduce, join

if "own-mpi" in sys.argv:
    importlib.import_module("mpi4py.MPI")
world = join()
allreduce(world, "before", [1.0])
if world.rank == 1:
    if sys.argv[1] == "exit":
        sys.exit(3)
    if sys.argv[1] == "raise":
        raise SystemExit(4)
    raise ValueError("a sample that cannot be read")
signal.pause()
