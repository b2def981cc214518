# SPDX-License-Identifier: Apache-2.0
"""A job's remains are found whatever they hide behind, beside other jobs on the machine.

Tests that a signal ends leave no process themselves.
"""

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from tests.integration import jobs
from tests.integration.forked_ranks import Forked
from tests.integration.hosts import needs_hosts
from tests.integration.jobs import REPOSITORY, started, started_by_fork
from tests.waiting import wait_until

HIDES = """
import subprocess
command = ["setsid", "--fork", "env", "-i", "sleep", "600"]  # another session, no environment, no living parent
subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
"""
LISTENING = """
import socket, sys, time
held = socket.socket(socket.AF_UNIX)
held.bind("\\0" + sys.argv[1])
held.listen()
print("listens", flush=True)
time.sleep(600)
"""
RUNS_TESTS = """
import pathlib, sys, time
from tests.integration.hosts import from_host, hosts
from tests.integration.jobs import started
from tests.termination import unwind_at_sigterm
unwind_at_sigterm()
with hosts(2) as made, started(from_host(made[0], "sleep", "600")) as job:
    print(*job.processes(), made[0].switch_pid, *(host.init_pid for host in made), flush=True)
    time.sleep(600)
"""


def name() -> str:
    """Return a name as ringtune's abstract sockets have it."""
    return f"ringtune-{secrets.token_hex(16)}"


@contextmanager
def other_job(socket_name: str) -> Iterator[None]:
    """Run a process that is no part of a test's job, and holds a socket of that name."""
    command = [sys.executable, "-c", LISTENING, socket_name]
    with subprocess.Popen(command, env={}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "listens\n" == process.stdout.readline()
        yield
        process.kill()


@pytest.mark.parametrize("is_forked", [False, True])
def test_a_process_that_hides_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_forked: bool) -> None:
    """Neither a cleared environment nor a session of its own hides a process that a job has left behind."""
    monkeypatch.setattr(jobs, "SETTLE_S", 0.0)
    program = tmp_path / "program.py"
    program.write_text(HIDES, encoding="utf-8")

    def run() -> None:
        with started_by_fork(Forked(program, ())) if is_forked else started([sys.executable, str(program)]) as job:
            job.wait()

    with pytest.raises(AssertionError, match=r"left processes: \d+ \(sleep 600\)"):
        run()


def test_a_socket_that_the_test_has_opened_and_left_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A server in the test's process that is not closed is a leak of the test's."""
    monkeypatch.setattr(jobs, "SETTLE_S", 0.0)

    def run(held: socket.socket) -> None:
        with started(["true"]) as job:
            held.bind(f"\0{name()}")
            job.wait()

    with (
        closing(socket.socket(socket.AF_UNIX)) as held,
        pytest.raises(AssertionError, match="left sockets: @ringtune-"),
    ):
        run(held)


def test_a_socket_of_another_job_is_none_of_a_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other jobs of the machine come and go beside a test, whatever their environment."""
    monkeypatch.setattr(jobs, "SETTLE_S", 0.0)
    with started(["true"]) as job, other_job(name()):
        job.wait()
        assert [] == job.processes()
        assert set() == jobs.own_sockets()


@needs_hosts
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_tests_that_are_ended_by_a_signal_leave_no_host(number: signal.Signals) -> None:
    """The processes of hosts end with the test's, and with them the namespaces; after SIGTERM, jobs end too."""
    with subprocess.Popen([sys.executable, "-c", RUNS_TESTS], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        job, *inits = map(int, run.stdout.readline().split())
        os.kill(run.pid, number)

    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inits))
    if number == signal.SIGTERM:
        wait_until(lambda: not Path(f"/proc/{job}").exists())
    else:
        os.kill(job, signal.SIGKILL)
