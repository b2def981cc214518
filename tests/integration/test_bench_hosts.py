# SPDX-License-Identifier: Apache-2.0
"""`ringtune bench --hosts` for real: hosts made and taken away, ranks on each of them. No speed is asserted."""

import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from ringtune.errors import RingtuneError
from ringtune.measuring.bench.contestants import BenchEnvironment
from ringtune.measuring.bench.network import joined_hosts, parse_rate
from ringtune.measuring.bench.network_contestants import find_delay_switch
from tests.integration.forked_services import ringtune_words
from tests.integration.hosts import needs_hosts
from tests.integration.jobs import ringtune, run_job

pytestmark = needs_hosts

RATE = 10**9
DELAY_MS = 20.0
DEADLINE_S = 540.0
END_LIMIT_S = 60.0
MAKES_HOSTS = """
import time
from ringtune.measuring.bench.network import joined_hosts
with joined_hosts(2, 10**9) as network:
    print(*(host.pid for host in network.hosts), flush=True)
    time.sleep(600)
"""


def text_of(command: list[str]) -> str:
    """Run a command to its successful end and return its output."""
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=END_LIMIT_S).stdout


def test_hosts_reach_each_other_over_shaped_links() -> None:
    """Each has an address and a name of its own, and can be entered by its address."""
    with joined_hosts(3, RATE) as network:
        shell = str(network.remote_shell)
        names = [text_of([shell, host.address, "hostname"]).strip() for host in network.hosts]
        first, last = network.hosts[0], network.hosts[-1]
        queues = text_of(last.command("tc", "qdisc", "show", "dev", "eth0"))
        connects = f"import socket; socket.create_connection(('{first.address}', 29500), 60)"
        listens = "import socket; server = socket.create_server(('', 29500)); print('up', flush=True); server.accept()"
        with subprocess.Popen(first.command(sys.executable, "-c", listens), stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            text_of(last.command(sys.executable, "-c", connects))

    assert ["host0", "host1", "host2"] == names
    assert 0 == server.returncode
    assert "tbf" in queues
    assert "rate 1Gbit" in queues
    assert "10.77.0.1:2,10.77.0.2:2,10.77.0.3:2" == network.places(6)


def test_a_delay_holds_up_what_goes_between_hosts() -> None:
    """A connection takes a way there and one back; messages arrive as they were sent."""
    switch = find_delay_switch(DELAY_MS, BenchEnvironment(2, Path(), os.environ, {}))
    first_says = "import socket; s = socket.create_server(('', 29500)); print('up', flush=True); c, _ = s.accept()"
    first_says += "; c.sendall(b''.join(iter(lambda: c.recv(65536), b'')))"
    other_says = f"""
import socket, time
begin_s = time.monotonic()
connection = socket.create_connection(("10.77.0.1", 29500), 60)
assert time.monotonic() - begin_s >= 2 * {DELAY_MS} / 1000
sent = bytes(range(256)) * 4000
connection.sendall(sent)
connection.shutdown(socket.SHUT_WR)
assert sent == b"".join(iter(lambda: connection.recv(65536), b""))
"""
    with joined_hosts(2, RATE, switch) as network:
        first, other = network.hosts
        with subprocess.Popen(first.command(sys.executable, "-c", first_says), stdout=subprocess.PIPE) as server:
            assert server.stdout is not None
            server.stdout.readline()
            text_of(other.command(sys.executable, "-c", other_says))

    assert 0 == server.returncode


def test_ways_of_the_engine_are_measured_at_a_delay(tmp_path: Path) -> None:
    """The ways that are asked for are measured, `auto` with a table of this network; no limit includes the delay."""
    file = tmp_path / "rows.json"
    options = ["-np", "2", "--hosts", "2", "--link", "1gbit", "--delay-ms", f"{DELAY_MS:g}", "--sizes", "4KiB"]
    options += ["--algorithms", "auto,recursive_doubling", "--rounds", "1", "--json", str(file)]

    finished = run_job(ringtune("bench", "--against", "none", *options), {"COLUMNS": "120"}, deadline_s=DEADLINE_S)

    assert 0 == finished.code, finished.text
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    assert {"auto", "recursive_doubling"} == {row["contestant"] for row in rows}
    assert all(row["us_median"] >= DELAY_MS * 1e3 for row in rows)
    assert f"2 ranks on 2 hosts, 1 Gbit/s, {DELAY_MS:g} ms" in finished.stdout


def test_hosts_are_gone_after_a_failure() -> None:
    """The hosts of a failed command are removed with the programs on them."""
    watches: list[int] = []
    sleeper = None

    def fail_between() -> None:
        nonlocal sleeper
        with joined_hosts(2, RATE) as network:
            watches.extend(os.pidfd_open(host.pid) for host in network.hosts)
            sleeper = subprocess.Popen(network.hosts[1].command("sleep", "600"))
            raise RingtuneError("while they are there")

    with pytest.raises(RingtuneError, match="while they are there"):
        fail_between()

    assert sleeper is not None
    assert 0 != sleeper.wait(timeout=END_LIMIT_S)
    assert 2 == len(watches)
    assert all_end(watches)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_hosts_are_gone_when_their_maker_is_ended(number: signal.Signals) -> None:
    """The hosts are removed after Ctrl-C and after a kill of their maker."""
    with subprocess.Popen(
        [sys.executable, "-c", MAKES_HOSTS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as maker:
        assert maker.stdout is not None
        pids = [int(pid) for pid in maker.stdout.readline().split()]
        watches = [os.pidfd_open(pid) for pid in pids]
        maker.send_signal(number)
        maker.wait(timeout=END_LIMIT_S)

    assert 2 == len(pids)
    assert all_end(watches)


def all_end(watches: Sequence[int]) -> bool:
    """Return whether all processes of these descriptors end soon; closes them."""
    with ExitStack() as opened:
        for watch in watches:
            opened.callback(os.close, watch)
        return all(select.select([watch], [], [], END_LIMIT_S)[0] for watch in watches)


def test_the_engine_and_a_peer_are_measured_between_hosts(tmp_path: Path) -> None:
    """Both ways of the engine, beside the wire's limit; the rows name hosts and link."""
    file, step = tmp_path / "rows.json", tmp_path / "step.json"
    tensors = [{"name": name, "shape": [30_000, extent]} for name, extent in (("weight", 5), ("bias", 1))]
    step.write_text(json.dumps({"name": "small", "dtype": "float32", "tensors": tensors}), encoding="utf-8")
    options = ["-np", "4", "--hosts", "2", "--link", "500mbit", "--sizes", "4KiB,256KiB", "--rounds", "1"]
    options += ["--workload", str(step)]

    finished = run_job(
        ringtune("bench", "--against", "gloo", *options, "--json", str(file)), {"COLUMNS": "120"}, deadline_s=DEADLINE_S
    )

    assert 0 == finished.code, finished.text
    rows = json.loads(file.read_text(encoding="utf-8"))["rows"]
    subjects = (("", 4096), ("", 256 << 10), ("small", 720_000))
    expected = {(name, *subject) for name in ("ring", "hierarchical", "gloo") for subject in subjects}
    assert expected == {(row["contestant"], row["workload"], row["bytes"]) for row in rows}
    assert all((4, 2, 500_000_000) == (row["ranks"], row["hosts"], row["link_bits_per_s"]) for row in rows)
    fastest_ms = min(row["us_median"] for row in rows if row["bytes"] == 256 << 10) / 1e3
    assert (256 << 10) / 62.5e6 * 1e3 / 2 < fastest_ms  # it went over the wire, all of it but a burst
    assert "wire, hierarchical" in finished.stdout
    assert "59.8 MB/s of payload" in finished.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--hosts", "2"], "--hosts and --link go together"),
        (["--hosts", "2", "--link", "fast"], "--link 'fast' is no rate of at least 1mbit"),
        (["--hosts", "1", "--link", "1gbit"], "--hosts 1: there must be 2 to 250"),
        (["--hosts", "2", "--link", "1gbit", "--delay-ms", "-1"], "--delay-ms -1 is no delay"),
        (["-np", "3", "--hosts", "2", "--link", "1gbit"], "-np 3 cannot be divided evenly among --hosts 2"),
    ],
)
def test_wrong_hosts_are_refused(options: list[str], message: str) -> None:
    """A wrong host option ends with exit code 2 and one paragraph."""
    finished = run_job(ringtune_words("bench", *options))

    assert 2 == finished.code, finished.text
    assert message in finished.stderr
    assert "Traceback" not in finished.stderr


def test_rates_are_read_as_tc_reads_them() -> None:
    """In powers of ten."""
    assert [100 * 10**6, 2_500 * 10**6, 10**6] == [parse_rate(text) for text in ("100mbit", "2.5Gbit", "1000000bit")]
