# SPDX-License-Identifier: Apache-2.0
"""A job that has imported mpi4py by itself, and uses MPI beside the engine."""

import numpy as np
from mpi4py import MPI

from tests.integration.plain_rank import allreduce, join, say

world = join()
by_mpi = np.empty(50_000)
for step in range(50):
    mine = np.full(50_000, step + MPI.COMM_WORLD.Get_rank(), dtype=np.float64)
    by_ringtune = allreduce(world, "x", mine.tolist())
    MPI.COMM_WORLD.Allreduce(mine, by_mpi)
    assert by_mpi.tolist() == by_ringtune
say("both at once")
