# SPDX-License-Identifier: Apache-2.0
"""`ringtune run -H` over a network: hosts with addresses of their own that must reach the launcher's meeting."""

import os
import signal
import subprocess
from pathlib import Path

from tests.integration.hosts import enter_rsh, from_host, hosts, needs_hosts
from tests.integration.jobs import program, ringtune, run_job, started, wait_for_line

pytestmark = needs_hosts


def test_ranks_on_several_hosts_find_the_meeting_place(tmp_path: Path) -> None:
    """The launcher's own host is known by its address, and its meeting place is reached from everywhere."""
    with hosts(3) as (first, *others):
        places = ",".join(f"{host.address}:2" for host in (first, *others))
        options = ["-np", "5", "-H", places, "--rsh", enter_rsh(tmp_path, *others)]
        finished = run_job(from_host(first, *ringtune("run", *options, *program("reaches_meeting"))))

    assert 0 == finished.code, finished.text
    expected = [f"[{rank}] rank {rank} reached {first.address} from 10.77.0.{rank // 2 + 1}" for rank in range(5)]
    assert expected == sorted(finished.stdout.splitlines())


def test_the_meeting_place_is_on_the_interface_that_was_named(tmp_path: Path) -> None:
    """The launcher's second interface, to which the other host knows a way; NCCL gets its name on both hosts."""
    with hosts(2) as (first, second):
        for command in (
            ["link", "add", "eth1", "type", "veth", "peer", "name", "beyond"],
            ["address", "add", "10.88.0.1/24", "dev", "eth1"],
            ["link", "set", "eth1", "up"],
            ["link", "set", "beyond", "up"],
        ):
            subprocess.run(from_host(first, "ip", *command), check=True)
        route = ["ip", "route", "add", "10.88.0.0/24", "via", first.address]
        subprocess.run(from_host(second, *route), check=True)
        options = ["-np", "2", "-H", f"{first.address},{second.address}", "--rsh", enter_rsh(tmp_path, second)]
        chosen = [*options, "--network-interfaces", "eth1"]
        met = run_job(from_host(first, *ringtune("run", *chosen, *program("reaches_meeting"))))
        names = run_job(from_host(first, *ringtune("run", *chosen, "sh", "-c", "echo $NCCL_SOCKET_IFNAME")))

    assert 0 == met.code, met.text
    assert ["[0] rank 0 reached 10.88.0.1 from 10.88.0.1", f"[1] rank 1 reached 10.88.0.1 from {second.address}"] == (
        sorted(met.stdout.splitlines())
    )
    assert ["[0] eth1", "[1] eth1"] == sorted(names.stdout.splitlines()), names.text


def test_a_host_that_cannot_reach_the_launcher_is_named(tmp_path: Path) -> None:
    """The host is named before any rank starts, with the address that was tried."""
    with hosts(2) as (first, second):
        second.set_link(is_up=False)  # the shell of this test needs no network; the ranks would
        options = ["-np", "2", "-H", f"{first.address},{second.address}", "--rsh", enter_rsh(tmp_path, second)]
        finished = run_job(from_host(first, *ringtune("run", *options, "true")))

    assert 2 == finished.code, finished.text
    assert f"{second.address}: the launcher cannot be reached from there at {first.address} port " in finished.stderr


def test_a_job_on_several_hosts_is_right(tmp_path: Path) -> None:
    """Ranks that were started on other hosts meet and reduce."""
    with hosts(2) as (first, second):
        options = ["-np", "4", "-H", f"{first.address}:2,{second.address}:2", "--rsh", enter_rsh(tmp_path, second)]
        finished = run_job(from_host(first, *ringtune("run", *options, *program("adds_up"))))

    assert 0 == finished.code, finished.text
    assert [f"[{rank}] rank {rank} of 4 has 6" for rank in range(4)] == sorted(finished.stdout.splitlines())


def test_hosts_that_see_each_others_processes_are_two(tmp_path: Path) -> None:
    """One namespace of process ids and two of networks, as containers with --pid=host have, share no memory."""
    with hosts(2) as (first, second):
        script = tmp_path / "rsh"
        enter = " ".join(from_host(second, "sh", "-c"))
        script.write_text(f'#!/bin/sh\nexec {enter} "$2"\n', encoding="utf-8")
        script.chmod(0o755)
        options = ["-np", "4", "-H", f"{first.address}:2,{second.address}:2", "--rsh", str(script)]
        finished = run_job(from_host(first, *ringtune("run", *options, *program("adds_up"))))

    assert 0 == finished.code, finished.text
    assert [f"[{rank}] rank {rank} of 4 has 6" for rank in range(4)] == sorted(finished.stdout.splitlines())


def test_a_host_whose_link_is_cut_ends_the_job(tmp_path: Path) -> None:
    """The launcher's own connection lives; the ranks beyond the cut link are ended like all others."""
    environ = {"RINGTUNE_TIMEOUT_S": "4"}
    with hosts(2) as (first, second):
        options = ["-np", "2", "-H", f"{first.address},{second.address}", "--rsh", enter_rsh(tmp_path, second)]
        command = from_host(first, *ringtune("run", *options, *program("sleeper", str(tmp_path))))
        with started(command, environ) as job:
            for rank in range(2):
                wait_for_line(tmp_path / f"ready.{rank}")
            second.set_link(is_up=False)
            os.kill(job.process.pid, signal.SIGTERM)
            finished = job.wait()

    assert 128 + signal.SIGTERM == finished.code, finished.text
