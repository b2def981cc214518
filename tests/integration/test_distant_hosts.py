# SPDX-License-Identifier: Apache-2.0
"""Steps of a job whose hosts are far from each other: the engine's rounds by step."""

import json
import os
from pathlib import Path

import pytest

from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import joined_hosts, parse_rate
from ringtune.measuring.bench.network_contestants import find_delay_switch
from tests.integration.hosts import needs_hosts
from tests.integration.jobs import program, run_job

pytestmark = needs_hosts

STEPS = 40
TENSORS = 4
DELAY_MS = 20.0


def rounds_of(between_ms: float) -> int:
    """Return the rounds of STEPS steps whose gradients come at this distance in time."""
    switch = find_delay_switch(DELAY_MS, BenchEnvironment(2, Path(), os.environ, {}))
    with joined_hosts(2, parse_rate("1gbit"), switch) as network:
        finished = run_job(
            [*network.run_command(2), *program("distant_steps", str(STEPS), str(TENSORS), f"{between_ms:g}")]
        )
    assert 0 == finished.code, finished.text
    counts = json.loads(finished.stdout.splitlines()[-1])
    assert STEPS * TENSORS == counts["tensors"]
    return int(counts["responses"])


def test_gradients_that_come_within_a_round_trip_share_a_round() -> None:
    """The first is ready 6 ms before the last, and a round of its own would delay that by 40 ms."""
    assert rounds_of(2.0) < 1.5 * STEPS


def test_gradients_that_come_later_than_a_round_trip_do_not_wait() -> None:
    """The first is ready 150 ms before the last: its round is over by then."""
    assert rounds_of(50.0) >= 2 * STEPS


@pytest.mark.parametrize(("hosts", "ranks"), [(2, 4), (3, 6)], ids=["whole blocks", "shares"])
def test_sums_are_right_with_many_chunks_in_flight(hosts: int, ranks: int) -> None:
    """At 40 ms from host to host and back, the engine has 16 MiB in flight: here all chunks of a message."""
    switch = find_delay_switch(DELAY_MS, BenchEnvironment(hosts, Path(), os.environ, {}))
    settings = {"RINGTUNE_HIERARCHICAL_ALLREDUCE": "1", "RINGTUNE_CHUNK_BYTES": "16384"}
    with joined_hosts(hosts, parse_rate("1gbit"), switch) as network:
        finished = run_job([*network.run_command(ranks), *program("distant_sums")], settings)
    assert 0 == finished.code, finished.text
    assert finished.stdout.splitlines()[-1] == f"right {7 * ranks} of {7 * ranks}"
