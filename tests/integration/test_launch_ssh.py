# SPDX-License-Identifier: Apache-2.0
"""`ringtune run -H` through real SSH servers on loopback: keys, refusals, and connections that are cut."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.jobs import program, ringtune, run_job, started, wait_for_line
from tests.integration.printed_lines import ALL, COUNT, LONGEST, RANKS, numbers, torn_lines
from tests.integration.remote_shells import SshServer, make_ssh_server, needs_ssh, running, ssh_server
from tests.integration.terminals import on_terminal

pytestmark = needs_ssh

ADDRESSES = ("127.0.0.1", "127.0.0.2")
READY = 'echo $$ >"$0/ready.$RINGTUNE_RANK"; '
WAIT = "sleep 600 & wait"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshServer]:
    """One server for all tests: they do not change it."""
    with ssh_server(tmp_path_factory.mktemp("ssh")) as running:
        yield running


def launch(server: SshServer, folder: Path, script: str, *options: str) -> list[str]:
    """Return the command of a job with a rank here and two on each of two hosts; `$0` is the folder."""
    hosts = ",".join(["localhost", *(f"{server.login}@{address}:2" for address in ADDRESSES)])
    shell = ["sh", "-c", script, str(folder)]
    return ringtune("run", "-np", "5", "-H", hosts, *(options or server.options()), *shell)


def ssh_clients(pids: list[int]) -> list[int]:
    """Return the processes that are clients of SSH, in the order of their starts."""
    return [pid for pid in sorted(pids) if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8") == "ssh\n"]


def test_ranks_run_by_ssh(server: SshServer, tmp_path: Path) -> None:
    """Lines, exit code and settings come through, and the login's own environment is used for the rest."""
    script = 'echo $RINGTUNE_RANK $AUTOTUNE_SEED ${SSH_CONNECTION:+by ssh}; test "$RINGTUNE_RANK" != 4 || exit 9'

    finished = run_job(launch(server, tmp_path, script), {**server.environ(), "AUTOTUNE_SEED": "5"})

    assert 9 == finished.code, finished.text
    remote = [f"[{rank}] {rank} 5 by ssh" for rank in range(1, 5)]
    assert ["[0] 0 5", *remote] == sorted(line.rstrip() for line in finished.stdout.splitlines())
    assert f"rank 4 of 5 (host {server.login}@127.0.0.2, pid " in finished.stderr


def test_lines_arrive_whole_by_ssh(server: SshServer) -> None:
    """Ten thousand lines of eight ranks behind two connections, up to 64 KiB long, none torn, lost or out of order."""
    hosts = ",".join(f"{server.login}@{address}:4" for address in ADDRESSES)
    command = ringtune("run", "-np", str(RANKS), "-H", hosts, *server.options())

    finished = run_job([*command, *program("prints_lines", str(COUNT), str(LONGEST))], server.environ())

    assert 0 == finished.code, finished.text[-2000:]
    for stream, text in (("out", finished.stdout), ("err", finished.stderr)):
        assert [] == torn_lines(text.encode(), "[N] ")
        assert ALL == numbers(text.encode(), stream)


def test_ranks_behind_ssh_see_the_launchers_terminal(server: SshServer) -> None:
    """Ranks behind ssh get the terminal's size and name, and changes of the size."""
    command = ringtune("run", "-np", "1", "-H", f"{server.login}@{ADDRESSES[0]}", *server.options())

    with on_terminal([*command, *program("shows_streams", "1")], server.environ()) as job:
        job.read_until(rb"\[0\] terminals out\+err, size 100x24, TERM xterm,.*\n")
        job.resize(77, 33)
        job.read_until(rb"\[0\] now terminals out\+err, size 77x33\r\n")
        assert 0 == job.wait()


def test_a_cut_connection_is_a_lost_host(server: SshServer, tmp_path: Path) -> None:
    """The ranks of the host behind it are ended there, the others are ended too, and the host is named."""
    with started(launch(server, tmp_path, READY + "exec sleep 600"), server.environ()) as job:
        for rank in range(5):
            wait_for_line(tmp_path / f"ready.{rank}")
        first, _ = ssh_clients(job.processes())

        os.kill(first, signal.SIGKILL)
        finished = job.wait()

    assert 128 + signal.SIGKILL == finished.code, finished.text
    assert f"rank 1 of 5 (host {server.login}@127.0.0.1, pid " in finished.stderr
    assert "was lost with its host (the connection ended; ssh was killed by signal 9" in finished.stderr


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_nothing_survives_the_launcher(server: SshServer, tmp_path: Path, number: signal.Signals) -> None:
    """However the launcher ends, no rank and no process of a rank is left behind a connection."""
    script = f'{READY} test "$RINGTUNE_RANK" = 0 && exec sleep 600; {WAIT}'

    with started(launch(server, tmp_path, script), server.environ()) as job:
        for rank in range(5):
            wait_for_line(tmp_path / f"ready.{rank}")
        os.kill(job.process.pid, number)
        finished = job.wait()

    assert finished.code == (-number if number == signal.SIGKILL else 128 + number), finished.text


def test_an_unknown_host_key_is_refused(server: SshServer, tmp_path: Path) -> None:
    """Host keys are checked as ssh does; its output is in the error, for each host."""
    known = server.folder / "known_hosts"
    text = known.read_text(encoding="utf-8")
    known.write_text("", encoding="utf-8")
    try:
        finished = run_job(launch(server, tmp_path, READY), server.environ())
    finally:
        known.write_text(text, encoding="utf-8")

    assert 2 == finished.code, finished.text
    assert "2 of 2 other hosts cannot take part, nothing was started" in finished.stderr
    assert 2 == finished.stderr.count("Host key verification failed"), finished.text
    assert [] == list(tmp_path.glob("ready.*"))


def test_a_key_that_opens_nothing_is_named(server: SshServer, tmp_path: Path) -> None:
    """A login that is refused is an error, never a question for a password."""
    options = ["-p", str(server.port), "--ssh-identity", str(server.folder / "host_key")]

    finished = run_job(launch(server, tmp_path, READY, *options), server.environ())

    assert 2 == finished.code, finished.text
    assert 2 == finished.stderr.count("Permission denied"), finished.text


def test_a_port_where_nobody_listens_is_named(server: SshServer, tmp_path: Path) -> None:
    """Once the time to start is over, the error quotes ssh."""
    options = ["-p", "1", "--ssh-identity", str(server.identity), "--start-timeout", "2.5"]

    finished = run_job(launch(server, tmp_path, READY, *options), server.environ())

    assert 2 == finished.code, finished.text
    assert "127.0.0.1: no answer within 2 s; ssh exited with code 255, saying: " in finished.stderr
    assert "ssh: connect to host 127.0.0.2 port 1: Connection refused" in finished.stderr


def test_a_host_that_comes_up_late_is_called_again(tmp_path: Path) -> None:
    """The server starts after the launcher, as in a container beside it; the launcher names the host it waits for."""
    server = make_ssh_server(tmp_path)
    command = launch(server, tmp_path, "echo here", *server.options(), "--start-timeout", "600")

    with started(command, server.environ()) as job:
        assert job.process.stderr is not None
        line = job.process.stderr.readline()
        with running(server):
            finished = job.wait()

    refusal = r"root@(127\.0\.0\.[12]): ssh exited with code 255, saying: ssh: connect to host \1 port "
    assert re.search(rf"{refusal}{server.port}: Connection refused", line), line  # the first host that was refused
    assert "Such hosts are called again for up to 600 s in all (--start-timeout)" in line
    assert 0 == finished.code, finished.text
    assert [f"[{rank}] here" for rank in range(5)] == sorted(finished.stdout.splitlines())


def test_a_name_that_is_not_known_yet_is_asked_for_again() -> None:
    """The way to the first other host is looked for until the time to start is over; then the name is in the error."""
    options = ["-np", "2", "-H", "localhost,no-such-host.invalid", "--start-timeout", "2.5"]

    finished = run_job(ringtune("run", *options, "true"))

    assert 2 == finished.code, finished.text
    assert 2 == finished.stderr.count("there is no way to host 'no-such-host.invalid'"), finished.text
    assert "It is tried again for 2 s (--start-timeout)" in finished.stderr
