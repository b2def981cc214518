# SPDX-License-Identifier: Apache-2.0
"""Allreduces of the number of bytes in the first argument under an MPI; rank 0 prints how long each took."""

import sys
import time

import numpy as np
from mpi4py import MPI

COLD_STEPS = 5
STEPS = 15

world = MPI.COMM_WORLD
values = np.ones(int(sys.argv[1]) // 4, dtype=np.float32)
total = np.empty_like(values)
for number in range(COLD_STEPS + STEPS):
    world.Barrier()
    begin_s = time.perf_counter()
    world.Allreduce(values, total)
    if world.rank == 0 and number >= COLD_STEPS:
        sys.stdout.write(f"ringtune: step_ms={(time.perf_counter() - begin_s) * 1e3:.6f}\n")
        sys.stdout.flush()
