# SPDX-License-Identifier: Apache-2.0
"""One file of the spool: the undelivered payloads of a job.

A job appends to a file of its own and holds its lock while it lives; a file whose lock is free was left by a job that
ended, and belongs to whoever takes the lock. A second delivery does no harm, so deliveries are not recorded: the
file is emptied once all of it is delivered, but for payloads that are held back for a later job.
"""

import contextlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from ringtune.system.durable_lines import append_lines
from ringtune.system.file_lock import lock_file, replace_locked, unlock_file

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
        descriptor = lock_file(path)
        return None if descriptor is None else cls(path, descriptor)

    def append(self, payload: bytes) -> None:
        """Add a payload with one write; a torn write before it does no damage to it.

        Raises:
            OSError: If it was not written, or there is no room; the earlier ones are as they were.
        """
        data = frame(payload)
        with self._lock:
            size = os.fstat(self._descriptor).st_size
            if size + len(data) > MAX_FILE_BYTES:
                raise OSError(f"{self.path} holds {size} bytes that were not delivered; it takes no more")
            append_lines(self._descriptor, data, is_alone=True)

    def pending(self) -> list[bytes]:
        """Return the payloads that this job has to deliver, the oldest first; damaged frames are left out.

        Raises:
            OSError: If the file cannot be read.
        """
        with self._lock:
            return self._payloads()[self._settled :]

    def delivered(self, count: int) -> None:
        """Take the first pending payloads as delivered; they leave the file once none is pending.

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
        """Close the file, and remove it if it is empty; idempotent, and never raises."""
        with self._lock:
            if self._descriptor < 0:
                return
            with contextlib.suppress(OSError):  # an empty file does no harm, nor do payloads that were delivered
                self._leave()
            unlock_file(self._descriptor)
            self._descriptor = -1

    def _leave(self) -> None:
        """Leave the payloads that a later job has to deliver; remove the file if there are none."""
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
        """Replace the file by one with the payloads that are held back, which has the lock before it has the name."""
        descriptor = replace_locked(self.path, b"".join(map(frame, self._held_back)))
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._settled = len(self._held_back)

    def _payloads(self) -> list[bytes]:
        return payloads(os.pread(self._descriptor, MAX_FILE_BYTES, 0))
