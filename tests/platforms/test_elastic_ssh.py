# SPDX-License-Identifier: Apache-2.0
"""Elastic jobs whose hosts are found by a discovery script and reached by ssh: a real server on each host."""

import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.integration.elastic_jobs import ElasticJob, WorkerState, elastic_job, write_hosts
from tests.integration.hosts import Host, from_host, hosts, needs_hosts, run_on
from tests.integration.remote_shells import SshServer, make_ssh_server, needs_ssh, running

pytestmark = needs_hosts
PORT = 2222


@contextmanager
def job_over(made: Sequence[Host], folder: Path, named: Mapping[Host, int]) -> Iterator[tuple[ElasticJob, SshServer]]:
    """Run a job whose launcher is on the first host, from hosts and slots that discovery names; no server runs yet."""
    keys = folder / "ssh"
    keys.mkdir()
    server = make_ssh_server(keys, [host.address for host in made], PORT)
    script = name_hosts(folder, named)
    options = ["-np", "1", "--host-discovery-script", script, *server.options()]
    with elastic_job(folder, *options, before=from_host(made[0]), environ=server.environ()) as job:
        yield job, server


def name_hosts(folder: Path, named: Mapping[Host, int]) -> str:
    """Have discovery name hosts with their slots; return its script."""
    return write_hosts(folder, *(f"{host.address}:{slots}" for host, slots in named.items()))


def ssh_clients(job: ElasticJob) -> list[int]:
    """Return the processes of the job that are clients of ssh, which the launcher has started."""
    return [pid for pid in job.job.processes() if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "ssh\n"]


def pids(world: Sequence[WorkerState]) -> list[int]:
    """Return the process ids of a world, by rank."""
    return [state.pid for state in world]


@needs_ssh
def test_workers_come_and_go_by_ssh(tmp_path: Path) -> None:
    """A host that is named joins; a killed worker and a cut connection are losses, and a host left out leaves."""
    with (
        hosts(2) as (first, second),
        job_over((first, second), tmp_path, {first: 1}) as (job, server),
        running(server, second),
    ):
        job.until_size(1)
        name_hosts(tmp_path, {first: 1, second: 2})
        world = job.until_size(3)
        run_on(second, ["kill", "-KILL", str(world[2].pid)])
        again = job.until_replaced(world[2])
        (client,) = ssh_clients(job)
        os.kill(client, signal.SIGKILL)
        reached = job.until_replaced(*again[1:])
        name_hosts(tmp_path, {first: 1})
        job.until_size(1, after_step=reached[0].step)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert pids(world)[0] == pids(again)[0] == pids(reached)[0]
    assert f"host {second.address} cannot take part" not in finished.stderr


@needs_ssh
def test_a_host_whose_server_comes_up_later_joins_then(tmp_path: Path) -> None:
    """Training begins without it, and the host is called again and not blamed: its server was not up yet."""
    with hosts(2) as (first, second), job_over((first, second), tmp_path, {first: 1}) as (job, server):
        (alone,) = job.until_size(1)
        ssh = server.folder / "ssh"
        ssh.write_text(ssh.read_text("utf-8").replace("exec ", f"touch {tmp_path}/tried\nexec "), "utf-8")
        name_hosts(tmp_path, {first: 1, second: 1})
        job.until(lambda _: (tmp_path / "tried").exists())
        with running(server, second):
            job.until_size(2, after_step=alone.step)
            finished = job.finish()

    assert 0 == finished.code, finished.text
    assert f"host {second.address} gets no new worker" not in finished.stderr


@needs_ssh
def test_the_death_of_a_host_ends_its_workers_alone(tmp_path: Path) -> None:
    """The server dies with the host's workers; the others restore the last commit and go on."""
    with (
        hosts(3) as made,
        job_over(made, tmp_path, dict.fromkeys(made, 1)) as (job, server),
        running(server, made[1]),
        running(server, made[2]),
    ):
        world = job.until_size(3)
        os.kill(made[1].init_pid, signal.SIGKILL)
        rest = job.until_size(2, after_step=world[0].step)
        finished = job.finish()

    assert 0 == finished.code, finished.text
    assert pids(world)[0] == pids(rest)[0]
    assert f"(host {made[1].address}, " in finished.stderr
