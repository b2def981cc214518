# SPDX-License-Identifier: Apache-2.0
"""Runs programs in a terminal, as a person would, and reads the screen."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

import pyte

from tests.integration.jobs import DEADLINE_S, clean_environment

COLUMNS, LINES = 100, 24
READ_BYTES = 1 << 16
# End of a moment: after a line, after a live line was drawn (the cursor is back), and after one that a launcher relays,
# which ends with a return. Output that comes at once, as on a busy machine, is seen in all its moments.
_MOMENT = re.compile(rb"(?<=\n)|(?<=\x1b8)|(?<=\r)(?!\n)")


@dataclass
class Seen:
    """A terminal's contents over time.

    Attributes:
        code: The exit code.
        raw: Every byte that came.
        screens: The screens, moment by moment, as lines without trailing blanks and empty ones.
    """

    code: int = -1
    raw: bytes = b""
    screens: list[list[str]] = field(default_factory=list)

    @property
    def last(self) -> list[str]:
        """The lines on the screen at the end."""
        return self.screens[-1] if self.screens else []

    def lines_with(self, text: str) -> list[str]:
        """Return the lines that had a text in them at some moment, each once."""
        return list(dict.fromkeys(line for screen in self.screens for line in screen if text in line))

    @property
    def text(self) -> str:
        """The end, for failure messages."""
        return f"exit code {self.code}\n" + "\n".join(self.last)


def _started(command: Sequence[str], environ: Mapping[str, str] | None, theirs: int) -> "subprocess.Popen[bytes]":
    """Start a command with a terminal as its three streams; our copy of its end is closed."""
    process = subprocess.Popen(
        list(command),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=clean_environment({"TERM": "xterm", **(environ or {})}, uuid.uuid4().hex),
        start_new_session=True,
    )
    os.close(theirs)
    return process


def run_on_terminal(
    command: Sequence[str], environ: Mapping[str, str] | None = None, *, deadline_s: float = DEADLINE_S
) -> Seen:
    """Run a command with a terminal of its own as its three streams, to its end; a job past the deadline is killed."""
    seen = Seen()
    screen = pyte.Screen(COLUMNS, LINES)
    stream = pyte.ByteStream(screen)
    end_s = time.monotonic() + deadline_s
    with _terminal() as (ours, theirs):
        process = _started(command, environ, theirs)
        for data in _read(ours, end_s):
            seen.raw += data
            for piece in _MOMENT.split(data):
                stream.feed(piece)
                seen.screens.append([line.rstrip() for line in screen.display if line.strip()])
        try:
            seen.code = process.wait(max(1.0, end_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            seen.code = process.wait()
    return seen


@dataclass
class TerminalJob:
    """A command that runs with a terminal of its own."""

    process: subprocess.Popen[bytes]
    terminal: int
    data: bytes = b""
    end_s: float = field(default_factory=lambda: time.monotonic() + DEADLINE_S)

    def read_until(self, pattern: bytes) -> re.Match[bytes]:
        """Wait until the output so far matches a pattern; fails with the output, if the command ends or hangs first."""
        while (match := re.search(pattern, self.data)) is None:
            piece = next(_read(self.terminal, self.end_s), b"")
            assert piece, self.data
            self.data += piece
        return match

    def resize(self, columns: int, lines: int) -> None:
        """Give the window another size, as a person does with the mouse."""
        fcntl.ioctl(self.terminal, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)

    def wait(self) -> int:
        """Read to the end and return the exit code."""
        self.data += b"".join(_read(self.terminal, self.end_s))
        return self.process.wait(max(1.0, self.end_s - time.monotonic()))


@contextmanager
def on_terminal(command: Sequence[str], environ: Mapping[str, str] | None = None) -> Iterator[TerminalJob]:
    """Run a command with a terminal of its own as its three streams; it is killed at the end if it still runs."""
    with _terminal() as (ours, theirs):
        process = _started(command, environ, theirs)
        try:
            yield TerminalJob(process, ours)
        finally:
            process.kill()
            process.wait()


def bytes_on_terminal(command: Sequence[str]) -> tuple[int, bytes]:
    """Run a command on a terminal to its end; return its exit code and all that came."""
    with on_terminal(command) as job:
        code = job.wait()
        return code, job.data


@contextmanager
def _terminal() -> Iterator[tuple[int, int]]:
    """Yield our end of a new terminal, and the programs' end, which is closed by whoever has passed it on."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)


def _read(descriptor: int, end_s: float) -> Iterator[bytes]:
    """Yield the programs' output, until none has the terminal open any more or the time is up."""
    while select.select([descriptor], [], [], max(0.0, end_s - time.monotonic()))[0]:
        try:
            data = os.read(descriptor, READ_BYTES)
        except OSError:  # the last program has gone
            return
        if not data:
            return
        yield data
