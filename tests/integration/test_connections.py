# SPDX-License-Identifier: Apache-2.0
"""Several connections and several networks between two hosts, in network namespaces."""

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.integration.hosts import Host, add_network, enter_rsh, from_host, hosts, needs_hosts
from tests.integration.jobs import Finished, program, ringtune, run_job, started, wait_for_line

pytestmark = needs_hosts

MIB = 1 << 20
SWITCHES = 300
LOST = {
    "down": ("ip", "link", "set", "eth1", "down"),
    "silent": ("tc", "qdisc", "add", "dev", "eth1", "root", "tbf", "rate", "1kbit", "burst", "10b", "latency", "1ms"),
}
"""Ends of a network: the interface is taken down, or lets no packet out any more."""


def run_between(
    folder: Path, first: Host, second: Host, arguments: tuple[str, ...], environ: Mapping[str, str]
) -> Finished:
    """Run the program of connections, a rank on each host."""
    return run_job(command_between(folder, first, second, arguments, environ))


def command_between(
    folder: Path, first: Host, second: Host, arguments: tuple[str, ...], environ: Mapping[str, str]
) -> list[str]:
    """Return the command that runs the program of connections, a rank on each host."""
    options = ["-np", "2", "-H", f"{first.address},{second.address}", "--rsh", enter_rsh(folder, second)]
    settings = {"RINGTUNE_ALGORITHM_TABLE": "default", **environ}
    words = [word for name, value in settings.items() for word in ("--env", f"{name}={value}")]
    return from_host(first, *ringtune("run", *options, *words, *program("connections", *arguments)))


def lose_network(folder: Path, end: str, environ: Mapping[str, str], *, first_rate: str = "") -> Finished:
    """Run a job between two hosts with two networks, and lose the second of them in mid-job."""
    begun = folder / "begun"
    with hosts(2, rate=first_rate) as (first, second):
        add_network(first, second, number=1)
        arguments = ("1000000", str(MIB), environ["RINGTUNE_CONNECTIONS"], str(begun))
        environ = {**environ, "RINGTUNE_TIMEOUT_S": "4"}
        with started(command_between(folder, first, second, arguments, environ)) as job:
            wait_for_line(begun)
            for host in (first, second):
                subprocess.run(from_host(host, *LOST[end]), check=True)
            return job.wait()


def seen(finished: Finished) -> list[dict[str, Any]]:
    """Return the ranks' observations, in their order."""
    assert 0 == finished.code, finished.text
    lines = [json.loads(line.partition("] ")[2]) for line in finished.stdout.splitlines() if "results" in line]
    return sorted(lines, key=lambda line: int(line["rank"]))


@pytest.mark.parametrize("tls", ["0", "1"])
def test_sums_have_one_result_whatever_the_number_of_connections(tmp_path: Path, tls: str) -> None:
    """Rank 0 switches at every allreduce; no byte is lost or misplaced, and both networks carry some."""
    environ = {"RINGTUNE_CONNECTIONS": "8", "RINGTUNE_TLS": tls}
    with hosts(2) as (first, second):
        add_network(first, second, number=1)
        one = seen(run_between(tmp_path, first, second, ("1", str(MIB), "1"), {}))
        many = seen(run_between(tmp_path, first, second, (str(SWITCHES), str(MIB), "1,8,3"), environ))

    assert {"connection.0"} == one[0]["connections"].keys()
    assert 1 == len(one[0]["results"])
    for rank in many:
        assert one[0]["results"] == rank["results"]
        assert SWITCHES == rank["switches"]
        assert 9 == len(rank["connections"])
        assert min(rank["sent_by"]["eth0"], rank["sent_by"]["eth1"]) > MIB


def test_data_take_the_faster_network_though_the_ranks_met_on_the_slower(tmp_path: Path) -> None:
    """One connection, and no setting: a probe at the meeting finds the way."""
    with hosts(2, rate="20mbit") as (first, second):
        add_network(first, second, number=1, rate="500mbit")
        ranks = seen(run_between(tmp_path, first, second, ("2", str(4 * MIB), "1"), {}))

    for rank in ranks:
        assert rank["sent_by"]["eth1"] > 8 * MIB
        assert rank["sent_by"]["eth0"] < 6 * MIB


def test_data_stay_on_the_interfaces_that_were_named(tmp_path: Path) -> None:
    """The faster network is left alone."""
    with hosts(2, rate="50mbit") as (first, second):
        add_network(first, second, number=1)
        environ = {"RINGTUNE_INTERFACES": "eth0", "RINGTUNE_CONNECTIONS": "4"}
        ranks = seen(run_between(tmp_path, first, second, ("2", str(MIB), "4"), environ))

    assert all(rank["sent_by"]["eth1"] < MIB for rank in ranks)


def test_an_interface_that_leads_nowhere_carries_nothing_and_keeps_no_rank_from_starting(tmp_path: Path) -> None:
    """Both hosts have an address on its network, and neither reaches the other there."""
    with hosts(2) as (first, second):
        add_network(first, second, number=1, is_cut=True)
        ranks = seen(run_between(tmp_path, first, second, ("2", str(MIB), "4"), {"RINGTUNE_CONNECTIONS": "4"}))

    assert all(5 > len(rank["connections"]) > 1 for rank in ranks)
    assert all(rank["sent_by"]["eth1"] < MIB for rank in ranks)


@pytest.mark.parametrize("end", LOST)
@pytest.mark.parametrize("tls", ["0", "1"])
def test_a_network_that_is_lost_in_mid_job_ends_it_in_time(tmp_path: Path, end: str, tls: str) -> None:
    """A share of each message takes that network: both ranks end, and say which rank or way is silent."""
    finished = lose_network(tmp_path, end, {"RINGTUNE_CONNECTIONS": "4", "RINGTUNE_TLS": tls})

    assert 0 != finished.code
    assert "CollectiveTimeout" in finished.text, finished.text
    # A rank whose own bytes have all arrived knows the silent rank, and not the way.
    assert "by way of 10.77.1." in finished.text or "sent nothing within a running collective" in finished.text, (
        finished.text
    )


@pytest.mark.parametrize("end", LOST)
def test_a_lost_network_that_carried_the_control_messages_is_named(tmp_path: Path, end: str) -> None:
    """The second network is the faster one, so that all messages take it, those of the coordinator too."""
    finished = lose_network(tmp_path, end, {"RINGTUNE_CONNECTIONS": "1"}, first_rate="20mbit")

    assert 0 != finished.code
    assert "CollectiveTimeout" in finished.text, finished.text
    assert "by way of 10.77.1." in finished.text, finished.text
