# SPDX-License-Identifier: Apache-2.0
"""The start of a command on another host."""

import shlex
import shutil
import sys
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.remote_shell import RemoteShell, agent_command, make_remote_shell


def test_ssh_gets_port_and_identity_and_never_asks(tmp_path: Path) -> None:
    """No question is asked on a terminal; host keys are checked as ssh's configuration says."""
    identity = tmp_path / "key"
    identity.write_text("", encoding="utf-8")

    command = make_remote_shell(None, 2222, identity, 30.0).command_on("b", ["echo", "a b"])

    assert ["b", "echo 'a b'"] == command[-2:]
    assert ["-p", "2222", "-i", str(identity)] == command[-6:-2]
    assert "BatchMode=yes" in command
    assert "StrictHostKeyChecking" not in " ".join(command)


def test_another_shell_is_split_as_a_shell_would() -> None:
    """`--rsh` is called like ssh: host, then one argument for a shell there."""
    shell = make_remote_shell("env 'A=b c' sh", None, None, 30.0)

    assert ["env", "A=b c", "sh", "node1", "echo 'it'\"'\"'s'"] == shell.command_on("node1", ["echo", "it's"])


@pytest.mark.parametrize(
    ("rsh", "port", "identity", "word"),
    [
        ("sh", 22, None, "with --rsh"),
        ("sh", None, Path("key"), "with --rsh"),
        ("'sh", None, None, "cannot be split"),
        ("", None, None, "an empty command"),
        ("no-such-shell -x", None, None, "'no-such-shell' was not found"),
        (None, 0, None, "-p 0 is not a port"),
        (None, 65_536, None, "-p 65536 is not a port"),
        (None, None, Path("/nonexistent/key"), "is not a file"),
    ],
)
def test_options_that_cannot_be_meant_are_errors(
    rsh: str | None, port: int | None, identity: Path | None, word: str
) -> None:
    """A wrong option is refused before a host is called."""
    with pytest.raises(ConfigError) as error:
        make_remote_shell(rsh, port, identity, 30.0)

    assert word in str(error.value)


@pytest.mark.skipif(shutil.which("ssh") is None, reason="no ssh; `make system-packages` installs OpenSSH")
def test_ssh_is_asked_what_a_name_means(tmp_path: Path) -> None:
    """An alias of ssh's configuration has the address that stands there."""
    configuration = tmp_path / "config"
    configuration.write_text("Host near\n  HostName 192.0.2.7\n", encoding="utf-8")
    ssh = RemoteShell(("ssh", "-F", str(configuration)), is_ssh=True)

    assert "192.0.2.7" == ssh.address_of("ada@near")
    assert "far.invalid" == ssh.address_of("far.invalid")


def test_another_shells_host_is_its_own_name() -> None:
    """No other shell is asked."""
    assert "near" == RemoteShell(("sh",), is_ssh=False).address_of("ada@near")


def test_the_agent_runs_under_the_same_interpreter() -> None:
    """The path of the interpreter and the variables that find ringtune go along, and no others."""
    command = agent_command({"PYTHONPATH": "a b", "HOME": "x", "RINGTUNE_JOB_KEY": "ab" * 32})

    assert ["env", "PYTHONPATH=a b", sys.executable] == command[:3]
    assert ["-m", "ringtune.launch.agent"] == command[-2:]
    assert sys.executable == agent_command({})[0]
    assert "ab" * 32 not in shlex.join(command)


@pytest.mark.parametrize(
    ("said", "may_come_up"),
    [
        ("ssh: Could not resolve hostname job-worker-0.job: Name or service not known", True),
        ("ssh: connect to host 10.0.0.1 port 2222: Connexion refusée", True),
        ("kex_exchange_identification: Connection closed by remote host", True),
        ("root@b: Permission denied (publickey).", False),
        ("Host key verification failed.", False),
        ("bash: python: command not found", False),
        ("", False),
    ],
)
def test_only_a_host_that_was_not_reached_may_come_up(said: str, may_come_up: bool) -> None:
    """A refused login is final; the messages of another shell are not understood."""
    words = f"Warning: a line before / {said}"

    assert make_remote_shell(None, None, None, 30.0).may_come_up(words) == may_come_up
    assert not make_remote_shell("sh", None, None, 30.0).may_come_up(words)
