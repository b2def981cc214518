# SPDX-License-Identifier: Apache-2.0
"""Meets the other ranks under an MPI, writes which shared memory that takes into a file, and sleeps."""

import sys
import time
from pathlib import Path

from mpi4py import MPI

MPI.COMM_WORLD.Barrier()
if MPI.COMM_WORLD.rank == 0:
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = sorted({line.split()[-1] for line in lines if "/dev/shm/" in line})
    Path(sys.argv[1]).write_text("".join(f"{line}\n" for line in ("met", *paths)), encoding="utf-8")
time.sleep(600)
