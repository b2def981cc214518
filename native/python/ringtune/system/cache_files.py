# SPDX-License-Identifier: Apache-2.0
"""Cache files: useful, replaceable, and in a home folder that may hang.

A named pipe, a device or a network file system that does not answer would keep one rank from its start, and with it
all ranks that wait for it. Caches are therefore read and written with a deadline, and only regular files are read.
"""

import errno
import os
import stat
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from ringtune.system.deadlines import DeadlineExceeded, WallDeadline, call_with_deadline

T = TypeVar("T")

START_LIMIT_S = 3.0
"""Deadline for a cache that ranks wait for, seconds: far above any disk's time, far below the limits of the meeting."""


def user_cache_folder(environ: Mapping[str, str]) -> Path:
    """Return ringtune's folder in `XDG_CACHE_HOME` where it is set, else in `~/.cache`; it need not exist yet.

    Its files may be deleted at any time; they are then measured or learned anew.
    """
    cache = Path(environ.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path(os.path.expanduser("~")) / ".cache"  # noqa: PTH111  (`Path.home` raises where there is none)
    return cache / "ringtune"


def within(limit_s: float, action: Callable[[], T]) -> T:
    """Return the result of a file action, or raise its error; a late action is left behind.

    Args:
        limit_s: Deadline, seconds.
        action: Runs in a thread of its own.

    Raises:
        TimeoutError: If it is late; an OSError, as for a file that cannot be read.
    """
    try:
        return call_with_deadline(action, WallDeadline(limit_s), "ringtune-file")
    except DeadlineExceeded:
        message = f"no answer within {limit_s:g} s; does a network file system hang?"
        raise TimeoutError(errno.ETIMEDOUT, message) from None


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
