# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for other hosts: a remote shell that stays on this machine, and real SSH servers on loopback.

Names such as `one@127.0.0.1` are other logins, so that the launcher does not take them for this machine itself.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.fork_server import MARKER
from tests.integration.hosts import Host
from tests.integration.jobs import ringtune, wait_for_line
from tests.integration.ports import free_port

LOOPBACKS = ("127.0.0.1", "127.0.0.2")
ONE, TWO = "one@127.0.0.1", "two@127.0.0.2"
HURRIED = "hurried@127.0.0.7"
"""Host whose agent has no time left for the ranks' last output, as on a very busy machine."""
CALLS = "calls"
READY = 'echo $$ >"$0/ready.$RINGTUNE_RANK"; '
WAIT = "sleep 600 & wait"
SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
START_LIMIT_S = 60.0

# Like a login: nothing of the caller's environment but what finds the job's processes again. Says who was called.
_RSH = """#!/bin/sh
host=$1
echo "$host" >> "{folder}/calls"
echo "Welcome to $host"
case $host in
  *unreachable*) echo "no route to $host" >&2; exit 255;;
  *hanging*) exec sleep 600;;
  *talkative*) exec yes;;
  *old*) set -- "$host" '{python} -c "
from ringtune.launch import agent, agent_protocol
agent_protocol.__version__ = \\"0.0.1\\"
agent.main()"'; PYTHONPATH="{path}"; export PYTHONPATH;;
  *hurried*) set -- "$host" '{python} -c "
from ringtune.launch import agent
agent.DRAIN_S = 0.0
agent.main()"'; PYTHONPATH="{path}"; export PYTHONPATH;;
esac
exec env -i PATH=/usr/bin:/bin HOME="{folder}" LOGIN_NAME="$host" {marker}="${marker}" PYTHONPATH="$PYTHONPATH" \\
  sh -c "cd \\"{folder}\\"; $2"
"""


def _missing_for_ssh() -> str:
    """Return why there can be no SSH server here; empty if there can be one."""
    if not Path(SSHD).exists() or shutil.which("ssh") is None or shutil.which("ssh-keygen") is None:
        return "OpenSSH is not installed; `make system-packages` does"
    return "" if os.geteuid() == 0 else "the SSH server needs root"


MISSING_FOR_SSH = _missing_for_ssh()
needs_ssh = pytest.mark.skipif(bool(MISSING_FOR_SSH), reason=MISSING_FOR_SSH)


def write_rsh(folder: Path) -> str:
    """Write a remote shell into a folder and return its path; whom it was asked to call stands in `calls` there."""
    script = folder / "rsh"
    path = os.pathsep.join(filter(None, sys.path))
    script.write_text(_RSH.format(folder=folder, marker=MARKER, python=sys.executable, path=path), encoding="utf-8")
    script.chmod(0o755)
    return str(script)


def launch(folder: Path, hosts: str, ranks: int, script: str, *options: str) -> list[str]:
    """Return the command of a job whose ranks run a shell script; `$0` is the folder."""
    shell = ["sh", "-c", script, str(folder)]
    return ringtune("run", "-np", str(ranks), "-H", hosts, "--rsh", write_rsh(folder), *options, *shell)


def lines_of(rank: int, text: str) -> list[str]:
    """Return the lines of a rank, without its number in front."""
    return [line.removeprefix(f"[{rank}] ") for line in text.splitlines() if line.startswith(f"[{rank}] ")]


def wait_until_ready(folder: Path, ranks: int) -> list[int]:
    """Wait for all ranks and return their process ids."""
    return [int(wait_for_line(folder / f"ready.{rank}")) for rank in range(ranks)]


@dataclass(frozen=True)
class SshServer:
    """A running SSH server and its client's settings.

    Attributes:
        port: Its port on each of its addresses.
        identity: File of the key that it accepts.
        folder: Has an `ssh` to be found first: the real one, told where the server's own key stands.
        login: A login that may enter.
    """

    port: int
    identity: Path
    folder: Path
    login: str

    def environ(self) -> dict[str, str]:
        """Return the changes of the environment by which the launcher finds the right ssh."""
        return {"PATH": f"{self.folder}{os.pathsep}{os.environ['PATH']}"}

    def options(self) -> list[str]:
        """Return the launcher's options."""
        return ["-p", str(self.port), "--ssh-identity", str(self.identity)]


@contextmanager
def ssh_server(folder: Path) -> Iterator[SshServer]:
    """Run an SSH server with keys of its own until the end of the block."""
    server = make_ssh_server(folder)
    with running(server):
        yield server


def make_ssh_server(folder: Path, addresses: Sequence[str] = LOOPBACKS, port: int | None = None) -> SshServer:
    """Return an SSH server that does not run yet; its keys, its port and its client are made.

    Args:
        folder: An empty folder for its files.
        addresses: Addresses that it listens on, each where a host has it.
        port: Its port; None for one that is free here.
    """
    Path("/run/sshd").mkdir(exist_ok=True)  # the server insists on it
    for name in ("host_key", "identity"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    shutil.copy(folder / "identity.pub", folder / "authorized_keys")
    host_key = (folder / "host_key.pub").read_text(encoding="utf-8").strip()
    port = free_port() if port is None else port
    known = "".join(f"[{address}]:{port} {host_key}\n" for address in addresses)
    (folder / "known_hosts").write_text(known, encoding="utf-8")
    (folder / "config").write_text(
        f"UserKnownHostsFile {folder}/known_hosts\nIdentitiesOnly yes\nSendEnv {MARKER}\n", encoding="utf-8"
    )
    listens = "".join(f"ListenAddress {address}:{port}\n" for address in addresses)
    (folder / "sshd_config").write_text(
        f"{listens}HostKey {folder}/host_key\n"
        f"AuthorizedKeysFile {folder}/authorized_keys\nPasswordAuthentication no\nStrictModes no\nUsePAM no\n"
        f"PermitRootLogin yes\nPidFile none\nAcceptEnv {MARKER}\n",
        encoding="utf-8",
    )
    ssh = folder / "ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F "{folder}/config" "$@"\n', encoding="utf-8")
    ssh.chmod(0o755)
    return SshServer(port, folder / "identity", folder, "root")


@contextmanager
def running(server: SshServer, host: Host | None = None) -> Iterator[None]:
    """Run an SSH server from its first answer on until the end of the block.

    Args:
        server: The server.
        host: Host that runs it; None for this machine.
    """
    file = server.folder / f"sshd-{host.name if host else 'here'}.log"
    command = [SSHD, "-D", "-e", "-f", str(server.folder / "sshd_config")]
    with file.open("wb") as log:
        process = subprocess.Popen(host.command(*command) if host else command, stderr=log, start_new_session=True)
    try:
        _wait_for_answer(file, process)
        yield
    finally:
        process.kill()
        process.wait()


def _wait_for_answer(log: Path, process: subprocess.Popen[bytes]) -> None:
    end_s = time.monotonic() + START_LIMIT_S
    while process.poll() is None and time.monotonic() < end_s:
        if "Server listening on" in log.read_text("utf-8"):
            return
        time.sleep(0.02)
    raise AssertionError(f"no answer: {log.read_text('utf-8')}")
