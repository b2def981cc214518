# SPDX-License-Identifier: Apache-2.0
"""One file of the spool: the undelivered payloads of a job.

A job appends to a file of its own and holds its lock while it lives; a file whose lock is free was left by a job that
ended, and belongs to whoever takes the lock. A second delivery does no harm, so deliveries are not recorded: the
file is emptied once all of it is delivered, but for payloads that are held back for a later job.
"""

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

from .spool_format import frame, payloads

MAX_FILE_BYTES = 8 << 20
"""Some ten thousand results."""


class SpoolFile:
    """A queue of payloads in a file; thread-safe."""

    def __init__(self, path: Path, descriptor: int) -> None:
        """Take over an open and locked file (see `claim`)."""
        self.path = path
        self._descriptor = descriptor
        self._lock = threading.Lock()  # guards the file and what follows, never held while something is sent
        self._settled = 0
        self._held_back: list[bytes] = []

    @classmethod
    def claim(cls, path: Path) -> "SpoolFile | None":
        """Open a file, or make it, and lock it; None if another process has it.

        Raises:
            OSError: If it can be neither opened nor made.
        """
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _regular_status(descriptor).st_nlink:  # else its last owner removed it meanwhile
                return cls(path, descriptor)
        except BlockingIOError:
            pass
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)
        return None

    def append(self, payload: bytes) -> None:
        """Add a payload with one write; what a writer tore before does not reach it.

        Raises:
            OSError: If it was not written, or there is no room; the earlier ones are as they were.
        """
        data = frame(payload)
        with self._lock:
            size = os.fstat(self._descriptor).st_size
            if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data
            if size + len(data) > MAX_FILE_BYTES:
                raise OSError(f"{self.path} holds {size} bytes that were not delivered; it takes no more")
            try:
                _write(self._descriptor, data)
            except OSError:
                os.ftruncate(self._descriptor, size)
                raise

    def pending(self) -> list[bytes]:
        """Return the payloads that this job has to deliver, the oldest first; damaged frames are left out.

        Raises:
            OSError: If the file cannot be read.
        """
        with self._lock:
            return self._payloads()[self._settled :]

    def delivered(self, count: int) -> None:
        """Take the first pending payloads as delivered; they leave the file once nothing is pending.

        Raises:
            OSError: If the file cannot be emptied; the payloads will be delivered again.
        """
        with self._lock:
            self._settle(self._payloads(), count)

    def hold_back(self, count: int) -> None:
        """Leave the first pending payloads to a later job: they stay in the file, and are pending no more.

        Raises:
            OSError: If the file cannot be read or written; all of it stays as it is.
        """
        with self._lock:
            found = self._payloads()
            self._held_back += found[self._settled : self._settled + count]
            self._settle(found, count)

    def close(self) -> None:
        """Let go of the file, and remove it if nothing is in it; idempotent, and never raises."""
        with self._lock:
            if self._descriptor < 0:
                return
            with contextlib.suppress(OSError):  # an empty file does no harm, nor do payloads that were delivered
                self._leave()
            with contextlib.suppress(OSError):
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)  # children that were forked share the lock
            os.close(self._descriptor)
            self._descriptor = -1

    def _leave(self) -> None:
        """Leave what a later job has to deliver; remove the file if that is nothing."""
        found = self._payloads()
        if not os.fstat(self._descriptor).st_size:
            self.path.unlink(missing_ok=True)
        elif len(self._held_back) < self._settled == len(found):
            self._rewrite()

    def _settle(self, found: Sequence[bytes], count: int) -> None:
        self._settled += count
        if self._settled < len(found):
            return
        if not self._held_back:
            os.ftruncate(self._descriptor, 0)
            self._settled = 0
        elif len(found) > 2 * len(self._held_back):  # else there is little to gain
            self._rewrite()

    def _rewrite(self) -> None:
        """Replace the file by one with what is held back alone, which has the lock before it has the name."""
        beside = self.path.with_name(f".{self.path.name}.new")
        flags = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(beside, flags, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _write(descriptor, b"".join(map(frame, self._held_back)))
            beside.replace(self.path)
        except BaseException:
            os.close(descriptor)
            beside.unlink(missing_ok=True)
            raise
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._settled = len(self._held_back)

    def _payloads(self) -> list[bytes]:
        return payloads(os.pread(self._descriptor, MAX_FILE_BYTES, 0))


def _write(descriptor: int, data: bytes) -> None:
    """Write all bytes at once; raises OSError if there is no room for them."""
    if os.write(descriptor, data) != len(data):
        raise OSError(f"the disk has no room for {len(data)} bytes")


def _regular_status(descriptor: int) -> os.stat_result:
    """Return the status of a file; raises OSError for a named pipe or a device, which may never end."""
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    return status
