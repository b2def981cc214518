# SPDX-License-Identifier: Apache-2.0
"""Files that are good to have and that nobody may have to wait for: caches, in a home that may hang.

A named pipe, a device or a network file system that does not answer would keep one rank from its start, and with it
all that wait for it. So such files are read and written within a time limit, and only regular ones are read.
"""

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar

T = TypeVar("T")

START_LIMIT_S = 3.0
"""For a cache that ranks wait for: far longer than any disk takes, far shorter than the limits of the meeting."""


def within(limit_s: float, action: Callable[[], T]) -> T:
    """Return what an action returns, or raise what it raises; an action that takes too long is left behind.

    Args:
        limit_s: How long it may take.
        action: Runs in a thread of its own. What it does after the limit is seen by nobody.

    Raises:
        TimeoutError: If it takes longer; an OSError, as for a file that cannot be read.
    """
    run = _Run(action)
    thread = threading.Thread(target=run.run, name="ringtune-file", daemon=True)
    thread.start()
    thread.join(limit_s)
    if thread.is_alive():
        raise TimeoutError(errno.ETIMEDOUT, f"no answer within {limit_s:g} s; does a network file system hang?")
    return run.outcome()


def read_regular_file(path: Path, max_bytes: int) -> bytes:
    """Return the first bytes of a file.

    Raises:
        OSError: If it cannot be read, or is no regular file.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # a named pipe's opening would wait
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no regular file")
        return file.read(max_bytes)


class _Run(Generic[T]):
    """An action and what came of it."""

    def __init__(self, action: Callable[[], T]) -> None:
        self._action = action
        self._results: list[T] = []
        self._error: BaseException | None = None

    def run(self) -> None:
        try:
            self._results.append(self._action())
        except BaseException as error:  # noqa: BLE001  (raised again where it is waited for)
            self._error = error

    def outcome(self) -> T:
        if self._error is not None:
            raise self._error
        return self._results[0]
