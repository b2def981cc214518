# SPDX-License-Identifier: Apache-2.0
"""Reads what is written to standard error while it is written; pytest's own capture is read at the end."""

import os
import select
import time
from collections.abc import Iterator
from contextlib import contextmanager

DEADLINE_S = 60.0


@contextmanager
def piped_stderr() -> Iterator[int]:
    """Have a pipe as standard error, and yield the end that is read; pytest would undo what a fixture does."""
    read_end, write_end = os.pipe()
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
    """Return what comes until a text has come so many times."""
    end_s, data = time.monotonic() + DEADLINE_S, b""
    while data.count(text) < times and select.select([descriptor], [], [], max(end_s - time.monotonic(), 0.0))[0]:
        data += os.read(descriptor, 4096)
    return data
