# SPDX-License-Identifier: Apache-2.0
"""Shows how an MPI moves an allreduce: bits of the sums, copies of other processes' memory, yields of a waiting rank.

Argument: number of elements. Rank 0 prints its digest, the copies and copied bytes of all ranks, and whether it yielded
its core while the others computed. `call_counter.cpp` is loaded before the C library.
"""

import ctypes
import hashlib
import sys

import numpy as np
from mpi4py import MPI

COMPUTING = 3_000_000  # additions: a waiting rank yields thousands of times meanwhile, or never
STEPS = 3

world = MPI.COMM_WORLD
counted = ctypes.CDLL(None)
random = np.random.default_rng(world.rank)
values = random.standard_normal(int(sys.argv[1])) * 10.0 ** random.integers(-6, 6, int(sys.argv[1]))
values = values.astype(np.float32)
total = np.empty_like(values)
for _ in range(STEPS):
    world.Allreduce(values, total)
own = np.array([counted.counted_copies(), counted.counted_copied_bytes()])
moved = np.empty_like(own)
world.Allreduce(own, moved)
world.Barrier()
before = counted.counted_yields()
if world.rank > 0:
    sum(range(COMPUTING))
world.Barrier()
if world.rank == 0:
    digest = hashlib.sha256(total.tobytes()).hexdigest()[:12]
    sys.stdout.write(f"calls: {digest} {moved[0]} {moved[1]} {counted.counted_yields() > before}\n")
