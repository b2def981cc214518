# SPDX-License-Identifier: Apache-2.0
"""Standard error, read while it is written; pytest's own capture is read at the end."""

import fcntl
import os
import pty
import select
import struct
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

DEADLINE_S = 60.0


@contextmanager
def piped_stderr() -> Iterator[int]:
    """Have a pipe as standard error, and yield the end that is read; pytest would undo a fixture's redirection."""
    with _stderr_at(*os.pipe()) as read_end:
        yield read_end


@contextmanager
def terminal_stderr(columns: int) -> Iterator[int]:
    """Have a terminal of some width as standard error, and yield the end that is read."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with _stderr_at(ours, theirs) as read_end:
        yield read_end


@contextmanager
def file_stderr(path: Path) -> Iterator[None]:
    """Have the end of a file as standard error."""
    with _stderr_at(os.open(path, os.O_RDONLY), os.open(path, os.O_WRONLY | os.O_APPEND)):
        yield


@contextmanager
def _stderr_at(read_end: int, write_end: int) -> Iterator[int]:
    saved = os.dup(2)
    os.dup2(write_end, 2)
    os.close(write_end)
    try:
        yield read_end
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(read_end)


def read_until(descriptor: int, text: bytes, times: int) -> bytes:
    """Return the output until a text has come the given number of times."""
    end_s, data = time.monotonic() + DEADLINE_S, b""
    while data.count(text) < times and select.select([descriptor], [], [], max(end_s - time.monotonic(), 0.0))[0]:
        data += os.read(descriptor, 4096)
    return data
