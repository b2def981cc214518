# SPDX-License-Identifier: Apache-2.0
"""The MPI of this environment as a peer of `ringtune bench`: compiled and run for real. No speed is asserted."""

import os
import sys
from pathlib import Path

import pytest

from ringtune.measuring.bench.contestants import BenchEnvironment, find_contestants
from ringtune.measuring.bench.launching import launch
from ringtune.measuring.bench.timing import Scheme
from ringtune.measuring.bench.workloads import Workload, WorkloadGradient

GRADIENTS = Workload("small", (WorkloadGradient("a:b", 1), WorkloadGradient("c=d", 70_001), WorkloadGradient("e", 15)))
SCHEME = Scheme((1024, 1 << 20), (GRADIENTS,), size_ms=5, workload_ms=5)


@pytest.mark.parametrize("ranks", [2, 3])
def test_sizes_and_every_way_of_a_step_are_measured(
    ranks: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program checks its sums itself, and ends with 0 only where all are right."""
    monkeypatch.setenv("HOME", str(tmp_path))
    environment = Path(sys.prefix)
    name = environment.name.removeprefix(".venv-")
    surroundings = BenchEnvironment(ranks, environment.parent, os.environ)
    found, missing = find_contestants([name], surroundings)
    assert [] == missing

    rows = launch(found[-1], SCHEME, surroundings, 0)

    measured = [(row.workload, row.bytes, row.way) for row in rows]
    steps = [("small", GRADIENTS.bytes, f"{name}, {way}") for way in ("one by one", "at once", "packed", "flat")]
    assert [("", 1024, name), ("", 1 << 20, name), *steps] == measured
    assert all(0 < row.us_median <= row.us_p99 and ranks == row.ranks for row in rows)
