# SPDX-License-Identifier: Apache-2.0
"""Start of a command on another host: by ssh, or by the program that `--rsh` names, which is called like ssh.

`--rsh COMMAND` is split as a shell would, and called as `COMMAND... HOST REMOTE_COMMAND`, where REMOTE_COMMAND is one
argument for a POSIX shell on that host. Standard input, output and error must pass through unchanged.
"""

import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ringtune.errors import ConfigError

AGENT_MODULE = "ringtune.launch.agent"
_RESOLVE_LIMIT_S = 10.0
_NOT_REACHED = (
    "ssh: Could not resolve hostname ",
    "ssh: connect to host ",
    "kex_exchange_identification: ",
    "ssh_exchange_identification: ",
)
"""Openings of OpenSSH's messages, in every locale, about a server that it has not reached or that is starting."""
_INTERPRETER_NAMES = ("PYTHONPATH", "LD_LIBRARY_PATH")  # the interpreter finds itself and ringtune by them


@dataclass(frozen=True)
class RemoteShell:
    """A program that runs commands on other hosts.

    Attributes:
        arguments: Program and arguments, up to the host.
        is_ssh: Whether it is OpenSSH's client, which can resolve a name.
    """

    arguments: tuple[str, ...]
    is_ssh: bool

    def command_on(self, host: str, remote: Sequence[str]) -> list[str]:
        """Return the local command line that runs `remote` on a host."""
        return [*self.arguments, host, shlex.join(remote)]

    def may_come_up(self, last_words: str) -> bool:
        """Return whether a host was not reached at all, so that another call may find it up; ssh's words tell.

        Args:
            last_words: Last words of the shell. Those of another shell than ssh are not known: its failure is final.
        """
        return self.is_ssh and any(words in last_words for words in _NOT_REACHED)

    def address_of(self, host: str) -> str:
        """Return the name or address that the shell would connect to: ssh's configuration may know an alias."""
        bare = host.rpartition("@")[2]
        if not self.is_ssh:
            return bare
        command = [self.arguments[0], "-G", *self.arguments[1:], host]
        try:
            output = subprocess.run(
                command, capture_output=True, text=True, timeout=_RESOLVE_LIMIT_S, check=False
            ).stdout
        except (OSError, subprocess.TimeoutExpired):
            return bare
        found = [line.split(" ", 1)[1] for line in output.splitlines() if line.startswith("hostname ")]
        return found[0] if found else bare


def make_remote_shell(rsh: str | None, ssh_port: int | None, ssh_identity: Path | None, limit_s: float) -> RemoteShell:
    """Return the remote shell that the options ask for.

    Args:
        rsh: The `--rsh` option; None for ssh.
        ssh_port: Port of the SSH servers; None leaves it to ssh's configuration.
        ssh_identity: File of the private key; None leaves it to ssh's configuration.
        limit_s: Time limit to reach a host.

    Raises:
        ConfigError: If the options contradict each other, or name a program or a file that is not there.
    """
    if rsh is not None:
        if ssh_port is not None or ssh_identity is not None:
            raise ConfigError("-p and --ssh-identity-file are for ssh; with --rsh, write them into its COMMAND")
        return RemoteShell(_split(rsh), is_ssh=False)
    arguments = ["ssh", "-T", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, int(limit_s * 0.8))}"]
    if ssh_port is not None:
        if not 1 <= ssh_port <= 65_535:
            raise ConfigError(f"-p {ssh_port} is not a port; allowed: 1 to 65535")
        arguments += ["-p", str(ssh_port)]
    if ssh_identity is not None:
        if not ssh_identity.is_file():
            raise ConfigError(
                f"--ssh-identity-file {str(ssh_identity)!r} is not a file; give the file of a private key"
            )
        arguments += ["-i", str(ssh_identity)]
    return RemoteShell(tuple(arguments), is_ssh=True)


def agent_command(environ: Mapping[str, str]) -> list[str]:
    """Return the command that starts a host agent elsewhere, with this process's interpreter.

    Args:
        environ: The launcher's environment.
    """
    safe = ["-P"] if sys.version_info >= (3, 11) else []  # a folder `ringtune` in the login's home is not meant
    variables = [f"{name}={environ[name]}" for name in _INTERPRETER_NAMES if environ.get(name)]
    return [*(["env", *variables] if variables else []), sys.executable, *safe, "-m", AGENT_MODULE]


def _split(rsh: str) -> tuple[str, ...]:
    try:
        arguments = tuple(shlex.split(rsh))
    except ValueError as error:
        raise ConfigError(f"--rsh {rsh!r} cannot be split as a shell would ({error}); check its quotes") from error
    if not arguments or shutil.which(arguments[0]) is None:
        named = repr(arguments[0]) if arguments else "an empty command"
        raise ConfigError(f"--rsh {rsh!r}: {named} was not found, or cannot be executed; check its spelling and PATH")
    return arguments
