# SPDX-License-Identifier: Apache-2.0
"""`ringtune serve` as a process of its own: forked, or launched as an operator starts it."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from ringtune import cli
from tests.integration.forked_services import ForkedCommand, start_command

COMMAND = (sys.executable, "-m", "ringtune.cli")
ANNOUNCED = re.compile(r"ringtune service: listening on (https?://\S+), data in (.+)\n")
END_S = 60.0


@dataclass
class ServerProcess:
    """A running service.

    Attributes:
        process: The process.
        url: The address where it listens.
        data: The folder of the data, as it logs it.
        client: Speaks to it.
    """

    process: "subprocess.Popen[str] | ForkedCommand"
    url: str
    data: str
    client: httpx.Client

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(END_S)


def environment(folder: Path, **variables: str) -> dict[str, str]:
    """Return an environment in which the user's data folder is `folder`."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("RINGTUNE_SERVICE_")}
    return {**own, "XDG_DATA_HOME": str(folder), **variables}


@dataclass(frozen=True)
class Ended:
    """The end of a command."""

    returncode: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class CommandLine:
    """Runs commands that end by themselves, in this process: starting one takes as long as ten of them."""

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    capsys: pytest.CaptureFixture[str]

    def run(self, *arguments: str, folder: Path | None = None) -> Ended:
        """Run a command to its end, with `folder` as the user's data folder and working directory."""
        with self.monkeypatch.context() as patch:
            patch.setenv("XDG_DATA_HOME", str(folder or self.folder))
            patch.chdir(folder or self.folder)
            code = cli._run_app([*arguments])
        written = self.capsys.readouterr()
        return Ended(code, written.out, written.err)


@contextmanager
def serving(
    folder: Path, *flags: str, variables: Mapping[str, str] | None = None, **client: Any
) -> Iterator[ServerProcess]:
    """Start a service on a free port, as a fork; it is killed at the end."""
    environ = environment(folder, RINGTUNE_SERVICE_DESIGN_WORKERS="0", **(variables or {}))
    log = folder / "stderr.txt"
    process = start_command("serve", "--port", "0", *flags, environ=environ, folder=folder, stderr=log)
    with spoken_to(process, log, **client) as server:
        yield server


@contextmanager
def serving_launched(folder: Path, *, prefix: Sequence[str] = ()) -> Iterator[ServerProcess]:
    """Start a service on a free port by an interpreter, after words before its own if there are any."""
    log = folder / "stderr.txt"
    with log.open("a", encoding="utf-8") as stderr:
        process = subprocess.Popen(
            [*prefix, *COMMAND, "serve", "--port", "0"],
            env=environment(folder, RINGTUNE_SERVICE_DESIGN_WORKERS="0"),
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    with spoken_to(process, log) as server:
        yield server


@contextmanager
def spoken_to(process: "subprocess.Popen[str] | ForkedCommand", log: Path, **client: Any) -> Iterator[ServerProcess]:
    """Wait until a service that starts has printed its address; it is killed at the end."""
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        match = ANNOUNCED.fullmatch(line)
        assert match is not None, f"{line!r} {log.read_text(encoding='utf-8')}"
        with httpx.Client(base_url=match[1], **{"timeout": END_S, **client}) as speaker:
            yield ServerProcess(process, match[1], match[2], speaker)
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
