# SPDX-License-Identifier: Apache-2.0
"""Spool of undelivered results: a folder with a file per job, shared by all jobs of a user and a service.

A job writes its results here before they are sent, so that a killed job loses none; a later job delivers them.
"""

import hashlib
from collections import deque
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

from .spool_file import SpoolFile

MAX_FOLDER_BYTES = 64 << 20
MAX_IN_MEMORY = 1000
"""Most payloads that are kept in memory, where no folder can be written."""
SUFFIX = ".spool"


class Pending(Protocol):
    """A queue of payloads that are to be delivered."""

    def append(self, payload: bytes) -> None:
        """Add one; raises OSError if there is no room."""

    def pending(self) -> list[bytes]:
        """Return those that are left, the oldest first; raises OSError."""

    def delivered(self, count: int) -> None:
        """Take the first ones as delivered; raises OSError."""

    def hold_back(self, count: int) -> None:
        """Take the first ones as not to be delivered by this job; they stay for a later one; raises OSError."""

    def close(self) -> None:
        """Close it; undelivered payloads stay where they are."""


class MemoryQueue:
    """Keeps payloads in memory, where no file can be written: undelivered ones are lost at the job's end."""

    def __init__(self) -> None:
        """Begin empty."""
        self._payloads: deque[bytes] = deque()

    def append(self, payload: bytes) -> None:
        """Add a payload.

        Raises:
            OSError: If there are too many.
        """
        if len(self._payloads) >= MAX_IN_MEMORY:
            raise OSError(f"{MAX_IN_MEMORY} results wait in memory; there is no room for more")
        self._payloads.append(payload)

    def pending(self) -> list[bytes]:
        """Return the payloads that are left."""
        return list(self._payloads)

    def delivered(self, count: int) -> None:
        """Forget the first ones."""
        for _ in range(min(count, len(self._payloads))):
            self._payloads.popleft()

    def hold_back(self, count: int) -> None:
        """Forget the first ones: there is no later job that would find them here."""
        self.delivered(count)

    def close(self) -> None:
        """Keep the payloads: a queue in memory has no file to close."""


class Spool:
    """The folder, for one service."""

    def __init__(self, cache_folder: Path, url: str) -> None:
        """Use a folder below `cache_folder`; it is made with the first file.

        Args:
            cache_folder: Cache folder of the user.
            url: URL of the service; results for one service are never sent to another.
        """
        self.folder = cache_folder / "spool" / hashlib.sha256(url.encode()).hexdigest()[:16]

    def open(self, job_id: str) -> SpoolFile:
        """Return the file of a job.

        Raises:
            OSError: If it cannot be made, or the folder is full of undelivered results.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        size = sum(_facts(path)[0] for path in self._files())
        if size >= MAX_FOLDER_BYTES:
            raise OSError(f"{self.folder} holds {size} bytes that were never delivered; delete them")
        file = SpoolFile.claim(self.folder / f"{job_id}{SUFFIX}")
        if file is None:
            raise OSError(f"another process writes to the spool of job {job_id}")
        return file

    def left_behind(self) -> Iterator[SpoolFile]:
        """Yield the files of jobs that have ended, the oldest first; each is closed when the next is asked for."""
        for path in sorted(self._files(), key=lambda path: _facts(path)[1:]):
            try:
                file = SpoolFile.claim(path) if path.exists() else None
            except OSError:
                continue  # it is not ours to read
            if file is not None:
                with closing(file):
                    yield file

    def _files(self) -> list[Path]:
        try:
            return list(self.folder.glob(f"*{SUFFIX}"))
        except OSError:
            return []


def _facts(path: Path) -> tuple[int, float, str]:
    """Return size, time of the last change and name, zeros for a file that was removed meanwhile."""
    try:
        facts = path.stat()
    except OSError:
        return 0, 0.0, path.name
    return facts.st_size, facts.st_mtime, path.name
