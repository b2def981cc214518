# SPDX-License-Identifier: Apache-2.0
"""The live benchmark for real: a job between two hosts is tuned, measured, and ends. No speed is asserted."""

import pytest

from benchmarks.tuner.live.__main__ import HOSTS, LivePlan, run_one
from benchmarks.tuner.live.task import LiveTask
from ringtune.measuring.bench.network import joined_hosts
from tests.integration.hosts import needs_hosts

STEPS = 40
RATE = 10**9


@needs_hosts
@pytest.mark.parametrize("target", ["engine", pytest.param("ddp", marks=pytest.mark.long)])
def test_a_live_job_is_tuned_and_measured(target: str) -> None:
    """All ranks end with Horovod's scheme, which takes as few steps as it is given."""
    with joined_hosts(HOSTS, RATE) as network:
        task = LiveTask("horovod", 0, STEPS, 4, 64, 1.0, network.hosts[0].address)

        found = run_one(LivePlan(target, "1gbit"), network, task)

    assert STEPS - 12 < found["steps"] <= STEPS
    assert found["low"] <= found["speedup"] <= found["high"]
    assert found["baseline_ms"] > 0
