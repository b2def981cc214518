# SPDX-License-Identifier: Apache-2.0
"""Exclusive locks (`flock`) on regular files. The kernel releases a lock with its holder, however that ends."""

import errno
import fcntl
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from .whole_file import PRIVATE_MODE, whole_file


def open_private(path: Path) -> int:
    """Open a file for reading and appending, follow no link, and create it for its owner alone where it is missing."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    return os.open(path, flags, PRIVATE_MODE)


def lock_file(path: Path, open_file: Callable[[Path], int] = open_private, *, is_waiting: bool = False) -> int | None:
    """Return a descriptor of a file that is locked and still has its name; None if another process has the lock.

    Args:
        path: The file.
        open_file: Opens it; called again if another process removed or replaced the file meanwhile.
        is_waiting: Whether to wait for another process's lock.

    Raises:
        OSError: If the file cannot be opened or locked, or is no regular one: reading a pipe may never end.
    """
    while True:
        descriptor = open_file(path)
        try:
            _check_regular(descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if is_waiting else fcntl.LOCK_NB))
            if _is_same_file(descriptor, path):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            return None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # another process may hold the lock of its successor


def replace_locked(path: Path, content: bytes) -> int:
    """Replace a private file by one that has the lock before it has the name; return its descriptor, which appends.

    Raises:
        OSError: If it cannot be written or locked; the file is as it was.
    """
    descriptor = None
    try:
        with whole_file(path, PRIVATE_MODE) as file:
            descriptor = os.dup(file.fileno())  # a lock belongs to the open file, whatever its descriptors
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            file.write(content)
    except BaseException:
        if descriptor is not None:
            os.close(descriptor)
        raise
    return descriptor


def unlock_file(descriptor: int) -> None:
    """Release a lock and close its descriptor, also where a forked child shares the open file."""
    with suppress(OSError):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
    os.close(descriptor)


def _check_regular(descriptor: int) -> None:
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        raise OSError(errno.EINVAL, "no regular file")


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116  (beside fstat)
    except FileNotFoundError:
        return False
