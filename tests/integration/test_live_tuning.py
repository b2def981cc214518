# SPDX-License-Identifier: Apache-2.0
"""The live benchmark for real: a job between two hosts is tuned, measured, and ends. No speed is asserted."""

import pytest

from benchmarks.tuner.live.__main__ import hosts_of, run_one
from benchmarks.tuner.live.cells import BACKEND, DDP, ENGINE, Cell
from benchmarks.tuner.live.task import HOROVOD, RINGTUNE, LiveTask
from tests.integration.hosts import needs_hosts

STEPS = 40
NET = "recommender"


@needs_hosts
def test_a_live_job_is_tuned_like_horovods_and_measured() -> None:
    """All ranks end with Horovod's scheme, which takes as few steps as it is given."""
    cell = Cell(NET)
    with hosts_of(cell) as network:
        found = run_one(cell, network, LiveTask(NET, ENGINE, HOROVOD, 0, STEPS, max_pairs=2))

    gain = found["gain"]
    assert STEPS - 12 < found["steps"] <= STEPS
    assert gain["low"] <= gain["speedup"] <= gain["high"]
    assert gain["baseline_ms"] > 0


@needs_hosts
@pytest.mark.long
@pytest.mark.parametrize("front", [ENGINE, BACKEND, DDP])
def test_a_live_job_is_tuned_until_the_verdict(front: str) -> None:
    """The row has what the tables need; on the engine's own front end also the best of a long search."""
    cell = Cell(NET, front=front, delay_ms=0.5, lost_share=0.001)
    with hosts_of(cell) as network:
        found = run_one(cell, network, LiveTask(NET, front, RINGTUNE, 0, 0, max_pairs=2))

    assert found["verdict"]
    assert found["steps"] > 0
    assert ("best" in found) == (front == ENGINE)
    assert found["gain"]["low"] <= found["gain"]["speedup"] <= found["gain"]["high"]
    assert found["gain"]["baseline_ms"] > 0
