# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs over hosts with networks of their own, which die, are cut off, flap, and come back."""

import os
import signal
from pathlib import Path

import pytest

from tests.integration.elastic_jobs import elastic_job, write_hosts
from tests.integration.hosts import Host, enter_rsh, from_host, hosts, needs_hosts
from tests.integration.jobs import REPOSITORY, program, ringtune, run_job

pytestmark = needs_hosts


def options(folder: Path, first: Host, *others: Host) -> list[str]:
    """Return the options of a job on the launcher's host, with one slot, and others that discovery names later."""
    script = write_hosts(folder, f"{first.address}:1")
    return ["-np", "1", "--host-discovery-script", script, "--rsh", enter_rsh(folder, *others)]


def test_the_death_of_a_host_is_a_loss_of_its_workers_alone(tmp_path: Path) -> None:
    """All processes of a host end at once; the others go on, and the host gets workers again when it is back."""
    with hosts(3) as (first, second, third):
        given = options(tmp_path, first, second, third)
        with elastic_job(tmp_path, *given, before=from_host(first)) as job:
            job.until_size(1)
            write_hosts(tmp_path, f"{first.address}:1", f"{second.address}:2", f"{third.address}:1")
            world = job.until_size(4)
            os.kill(second.init_pid, signal.SIGKILL)
            rest = job.until_size(2, after_step=world[0].step)
            finished = job.finish()

    assert 0 == finished.code, finished.text
    assert world[0].pid == rest[0].pid
    assert 2 == finished.stderr.count(f"(host {second.address}, "), finished.stderr
    assert 1 == finished.stderr.count(f"host {second.address} gets no new worker for ")


@pytest.mark.long
def test_a_host_that_is_cut_off_costs_its_workers(tmp_path: Path) -> None:
    """The remote shell lives, the network does not: the peers notice, and the launcher ends the cut-off workers."""
    with hosts(2) as (first, second):
        given = options(tmp_path, first, second)
        environ = {"RINGTUNE_TIMEOUT_S": "6"}
        with elastic_job(tmp_path, *given, before=from_host(first), environ=environ) as job:
            job.until_size(1)
            write_hosts(tmp_path, f"{first.address}:1", f"{second.address}:1")
            world = job.until_size(2)
            second.set_link(is_up=False)
            job.until_size(1, after_step=world[0].step)
            write_hosts(tmp_path, f"{first.address}:1")
            finished = job.finish()

    assert 0 == finished.code, finished.text


def test_a_host_that_flaps_changes_nothing_until_it_stays_away(tmp_path: Path) -> None:
    """Every other answer lacks the host: its worker trains on, in the same world."""
    with hosts(2) as (first, second):
        given = options(tmp_path, first, second)
        looks = tmp_path / "looks"
        flap = f"[ $(( $(grep -c x {looks}) % 2 )) = 1 ] && echo {second.address}:1"
        given[given.index("--host-discovery-script") + 1] = f"echo x >> {looks}; {flap}; cat {tmp_path}/hosts"
        with elastic_job(tmp_path, *given, before=from_host(first)) as job:
            world = job.until_size(2)
            seen = len(looks.read_text(encoding="utf-8"))
            job.until(lambda _: len(looks.read_text(encoding="utf-8")) > seen + 10)
            same = job.until_size(2, after_step=world[0].step)
            finished = job.finish()

    assert 0 == finished.code, finished.text
    assert [state.pid for state in world] == [state.pid for state in same]
    assert "is to leave" not in finished.stderr


def test_a_host_that_cannot_be_reached_cools_and_is_tried_again(tmp_path: Path) -> None:
    """The job goes on meanwhile; the reason is named."""
    with hosts(2) as (first, second):
        given = options(tmp_path, first)
        (tmp_path / "rsh").write_text(f"#!/bin/sh\ntouch {tmp_path}/tried\necho 'key refused' >&2\nexit 1\n", "utf-8")
        with elastic_job(tmp_path, *given, before=from_host(first)) as job:
            job.until_size(1)
            write_hosts(tmp_path, f"{first.address}:1", f"{second.address}:1")
            (alone,) = job.until(lambda _: (tmp_path / "tried").exists())
            enter_rsh(tmp_path, second)
            job.until_size(2, after_step=alone.step)
            finished = job.finish()

    assert 0 == finished.code, finished.text
    assert f"host {second.address} cannot take part: the connection ended; " in finished.stderr
    assert "key refused; it gets no new worker for 0.2 s." in finished.stderr


def test_a_fixed_job_asks_a_function_for_its_hosts_once(tmp_path: Path) -> None:
    """`--hosts-from` without elastic options."""
    with hosts(2) as (first, second):
        (tmp_path / "cluster.py").write_text(
            f"def hosts():\n    return {{'{first.address}': 1, '{second.address}': 2}}\n", encoding="utf-8"
        )
        given = ["-np", "3", "--hosts-from", "cluster:hosts", "--rsh", enter_rsh(tmp_path, second)]
        environ = {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(REPOSITORY)])}
        finished = run_job(from_host(first, *ringtune("run", *given, *program("adds_up"))), environ)

    assert 0 == finished.code, finished.text
    assert [f"[{rank}] rank {rank} of 3 has 3" for rank in range(3)] == sorted(finished.stdout.splitlines())
