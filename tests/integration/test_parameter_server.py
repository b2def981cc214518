# SPDX-License-Identifier: Apache-2.0
"""The comparison with parameter servers for real: every way trains, and nothing is left. No speed is asserted."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.parameter_server import tensorflow_witness
from benchmarks.parameter_server.__main__ import measure_one
from benchmarks.parameter_server.arena import Arena, clean_environment, open_arena
from benchmarks.parameter_server.rows import Row
from benchmarks.parameter_server.trial import ASYNC, DDP, ONE_HOST, RINGTUNE, SYNC, TENSORFLOW, Trial
from ringtune.errors import RingtuneError
from tests.integration.hosts import needs_hosts

pytestmark = needs_hosts

LINK = "500mbit"
WORKERS, SERVERS = 2, 1
GRADIENT_MB = 1.068  # 266,890 parameters
HEADERS = 1.03  # factor of Ethernet, IP and TCP, confirmations included: at most 3 % more
DEADLINE_S = 120.0
SYNCHRONOUS = (SYNC, DDP, RINGTUNE)


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    """Yield hosts for two workers and a server."""
    with open_arena(LINK, WORKERS, SERVERS) as made:
        yield made


@pytest.fixture(scope="module")
def rows(arena: Arena) -> dict[str, Row]:
    """Return the row of a short trial of every way."""
    ways = {SYNC: 1, ASYNC: 1, DDP: 0, RINGTUNE: 0}
    trials = [Trial(way, servers, WORKERS, LINK, seconds=0.6) for way, servers in ways.items()]
    return {trial.way: measure_one(arena, trial, 0.0) for trial in trials}


def test_the_busiest_link_carries_what_the_way_says(rows: dict[str, Row]) -> None:
    """A server carries both workers' gradients, and a ring of two as much as one gradient."""
    expected = {SYNC: ("server0", 2), ASYNC: ("server0", 2), DDP: ("worker", 1), RINGTUNE: ("worker", 1)}
    for way, (busiest, gradients) in expected.items():
        assert rows[way].busiest.startswith(busiest), way
        assert gradients * GRADIENT_MB <= rows[way].busiest_mb <= gradients * GRADIENT_MB * HEADERS, way


def test_synchronous_ways_learn_alike(rows: dict[str, Row]) -> None:
    """After equally many gradients the loss is the same, up to the order of sums."""
    by_way = [{gradients: loss for _, gradients, loss in rows[way].curve} for way in SYNCHRONOUS]
    common = set.intersection(*map(set, by_way)) - {0}

    assert common
    for gradients in common:
        losses = [curve[gradients] for curve in by_way]
        assert losses[0] == pytest.approx(losses[1], abs=2e-4)
        assert losses[0] == pytest.approx(losses[2], abs=2e-4)
        assert losses[0] < by_way[0][0]


def test_gradients_are_stale_under_the_asynchronous_server_alone(rows: dict[str, Row]) -> None:
    """A worker misses about one gradient of the other between two of its own."""
    assert [0.0] * 3 == [rows[way].staleness for way in SYNCHRONOUS]
    assert 0.0 < rows[ASYNC].staleness


@pytest.mark.long
def test_a_failed_process_ends_the_run_with_its_own_words() -> None:
    """The error has the traceback of the process, and the hosts are gone."""
    watches: list[int] = []

    def fail() -> None:
        with open_arena(ONE_HOST, 1, 0) as made:
            watches.extend(os.pidfd_open(host.pid) for host in made.hosts)
            made.measure(Trial("telepathy", 0, 1, ONE_HOST))

    with pytest.raises(RingtuneError, match="KeyError: 'telepathy'"):
        fail()

    assert 1 == len(watches)
    assert all_end(watches)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_of_an_ended_run(number: signal.Signals, tmp_path: Path) -> None:
    """Every process that had been started ends, the hosts' first ones included."""
    marker = f"PARAMETER_SERVER_TEST={tmp_path}"
    name, _, value = marker.partition("=")
    command = [sys.executable, "-m", "benchmarks.parameter_server", "--quick", "--places", ONE_HOST]
    environment = {**clean_environment(), name: value, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as run:
        while not (nodes := [pid for pid in marked(marker) if is_node(pid)]) and run.poll() is None:
            select.select([], [], [], 0.1)
        watches = [os.pidfd_open(pid) for pid in marked(marker) if pid != run.pid]
        run.send_signal(number)

    assert nodes
    assert all_end(watches)
    assert not marked(marker)


@pytest.mark.long
def test_tensorflows_servers_are_measured_and_ended(arena: Arena) -> None:
    """Its loss falls, its server carries both workers' gradients, and none of its processes stays."""
    if reason := tensorflow_witness.missing():
        pytest.skip(reason)

    row = measure_one(arena, Trial(TENSORFLOW, 1, WORKERS, LINK, seconds=1.0), 0.0)

    assert row.curve[-1][2] < row.curve[0][2]
    assert "server0" == row.busiest
    assert 2 * GRADIENT_MB <= row.busiest_mb <= 2 * GRADIENT_MB * 1.2
    listed = subprocess.run(arena.hosts[0].command("ps", "ax"), capture_output=True, text=True, check=True).stdout
    assert "tensorflow_node" not in listed


def marked(marker: str) -> list[int]:
    """Return the processes that have a variable of their environment."""
    folders = [folder for folder in Path("/proc").iterdir() if folder.name.isdigit()]
    return [int(folder.name) for folder in folders if marker.encode() in read(folder / "environ").split(b"\0")]


def is_node(pid: int) -> bool:
    """Return whether a process is a node."""
    return b"benchmarks.parameter_server.ranks.node" in read(Path(f"/proc/{pid}/cmdline"))


def read(path: Path) -> bytes:
    """Return a file of a process; empty if it has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def all_end(watches: list[int]) -> bool:
    """Return whether all processes of these descriptors end soon; closes them."""
    ended = all(select.select([watch], [], [], DEADLINE_S)[0] for watch in watches)
    for watch in watches:
        os.close(watch)
    return ended
