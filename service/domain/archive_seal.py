# SPDX-License-Identifier: Apache-2.0
"""An archive's last line, by which one that was cut off or changed on its way is told from a whole one.

It has the number of the lines before it and their SHA-256, each with its newline. Archives of schema 1 have none.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from tempfile import SpooledTemporaryFile

from ringtune.service.errors import InvalidRequest

from .canonical import canonical

MEMORY_BYTES = 64 << 20
"""Bytes in memory of an archive that comes line by line; more is kept in a file until all of it was seen."""


class LineSeal:
    """Counts and digests lines.

    Attributes:
        lines: Number of lines.
    """

    def __init__(self) -> None:
        """Begin without any."""
        self.lines = 0
        self._digest = hashlib.sha256()

    def add(self, line: str) -> str:
        """Count a line and return it."""
        self.lines += 1
        self._digest.update(line.encode() + b"\n")
        return line

    @property
    def line(self) -> str:
        """The last line of an archive that has these lines."""
        return canonical({"type": "end", "lines": self.lines, "sha256": self._digest.hexdigest()})


@contextmanager
def rereadable(lines: Iterable[str]) -> Iterator[Callable[[], Iterator[str]]]:
    """Yield functions that begin to read lines from the first one, each time; lines that come only once are copied.

    Args:
        lines: Each with its newline or without.
    """
    if not isinstance(lines, Iterator):
        yield lambda: iter(lines)
        return
    with SpooledTemporaryFile(MEMORY_BYTES, "w+", encoding="utf-8", prefix="ringtune-import-") as copy:
        copy.writelines(line.rstrip("\n") + "\n" for line in lines)

        def from_the_first() -> Iterator[str]:
            copy.seek(0)
            return iter(copy)

        yield from_the_first


def check_whole(lines: Iterable[str]) -> None:
    """Refuse an archive without its last line, or with one that says otherwise.

    Raises:
        InvalidRequest: If lines are missing or were changed; it says how many are here.
    """
    seal, last = LineSeal(), None
    for line in lines:
        if last is not None:
            seal.add(last)
        last = line.rstrip("\n")
    if last != seal.line:
        raise InvalidRequest(
            f"the archive was cut off or changed: its last line does not seal the {seal.lines} before it; nothing was "
            "stored; export again, or copy the file again"
        )
