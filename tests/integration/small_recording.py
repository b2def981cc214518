# SPDX-License-Identifier: Apache-2.0
"""Request for a recording of a small surface: nine gradients, two repeats, a grid of one cell beside the defaults."""

from pathlib import Path

from ringtune.measuring.bench.surface import SurfaceRequest
from ringtune.measuring.bench.surface_grid import Grid
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient
from ringtune.tuner.space.parameters import MIB

WORKLOAD = Workload("small", tuple(WorkloadGradient(f"t{number}", 1000 + 20_000 * (number % 3)) for number in range(9)))
GRID = Grid((1 * MIB,), (0.5,))


def request(folder: Path, ranks: int = 2) -> SurfaceRequest:
    """Return a request whose surface goes into a folder, as `s.gz`."""
    return SurfaceRequest(folder / "s.gz", ranks, WORKLOAD, 2, GRID, compute_ms=1.0, window_ms=20.0)
