# SPDX-License-Identifier: Apache-2.0
"""Starts commands of `ringtune` as forks of a process that has imported the service and its pages, but not torch.

One such process per test process; see `fork_server`. A service starts in a third of an interpreter's CPU seconds. A
launched one is for tests of the start, of the process's memory, and for commands that stand before the service's own.
"""

import atexit
import os
import sys
import uuid
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import IO

from tests.integration.fork_server import MARKER
from tests.integration.forked_ranks import Forked, ForkedProcess, ForkServerClient
from tests.integration.jobs import clean_environment, client_words, write_command

MODULES = (
    "ringtune.cli",
    "ringtune.dashboards.report.page",
    "ringtune.dashboards.web",
    "ringtune.service.serving",
    "ringtune.service.store.schema",
    "ringtune.tuner.designers.gp",
    "ringtune.tuner.review",
    "ringtune.tuner.simulator",
    "scipy.special",
    "uvicorn.lifespan.on",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
"""Modules that a service imports until its first reply, and those of the commands that take longest to import."""


class Streams:
    """Standard output as a pipe, and standard error in a file."""

    def __init__(self, stderr: Path) -> None:
        """Open both; the file keeps its contents."""
        read_end, self._write_end = os.pipe()
        self._stderr = os.open(stderr, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        self._file = stderr
        self.stdout: IO[str] = os.fdopen(read_end, encoding="utf-8")
        self.descriptors = (self._write_end, self._stderr)

    def hand_over(self) -> None:
        """Leave both to the process that has them: its end is the end of the pipe."""
        for descriptor in self.descriptors:
            os.close(descriptor)

    def read(self) -> tuple[str, str]:
        """Return the unread rest of standard output, until its end, and the file."""
        return self.stdout.read(), self._file.read_text(encoding="utf-8")


class ForkedCommand(ForkedProcess):
    """A command in flight.

    Attributes:
        stdout: Its standard output, as lines.
    """

    def __init__(self, status: int, streams: Streams) -> None:
        super().__init__(status, streams)
        self.stdout: IO[str] = streams.stdout


@cache
def command_server() -> ForkServerClient:
    """Return the server that forks this test process's services; the first call starts it."""
    server = ForkServerClient(clean_environment({}, "0" * len(uuid.uuid4().hex)), MODULES)
    atexit.register(server.close)
    return server


def ringtune_words(*arguments: str) -> list[str]:
    """Return the command line of a `ringtune` that is forked; its environment needs a marker."""
    return [*client_words(command_server(), Path(sys.executable)), "-m", "ringtune", *arguments]


def preloaded_ringtune(path: Path, python: Path) -> None:
    """Make a program that stands for `ringtune` as `preloaded_python` stands for `python`, which its ranks run."""
    write_command(path, [*client_words(command_server(), python), "-m", "ringtune"])


def start_command(*words: str, environ: Mapping[str, str], folder: Path, stderr: Path) -> ForkedCommand:
    """Start `ringtune` with these words, in a folder; standard error goes to the end of a file."""
    command = Forked(Path("ringtune"), words, is_module=True, directory=folder)
    streams = Streams(stderr)
    try:
        status = command_server().order(command, {**environ, MARKER: uuid.uuid4().hex}, streams.descriptors)
    finally:
        streams.hand_over()
    return ForkedCommand(status, streams)
