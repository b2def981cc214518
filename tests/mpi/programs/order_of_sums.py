# SPDX-License-Identifier: Apache-2.0
"""Shows by the bits of sums in which order an MPI's allreduce adds, so that its algorithms can be told apart.

Each rank contributes a number whose sum depends on the order. A ring's blocks begin at different ranks, so that its
result differs between them; that of other algorithms does not. Prints how many results there are, for each number of
elements.
"""

import sys

import numpy as np
from mpi4py import MPI

world = MPI.COMM_WORLD
number = (1e8, 1.0, -1e8, 1.0)[world.rank]


def different_results(elements: int) -> int:
    """Return the number of different sums of an allreduce of that many elements."""
    values = np.full(elements, number, dtype=np.float32)
    total = np.empty_like(values)
    world.Allreduce(values, total)
    return len(set(total.tolist()))


counts = " ".join(str(different_results(int(elements))) for elements in sys.argv[1:])
if world.rank == 0:
    sys.stdout.write(f"different results: {counts}\n")
