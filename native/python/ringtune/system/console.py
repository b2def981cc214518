# SPDX-License-Identifier: Apache-2.0
"""Rare lines for people on stderr, in the form of the engine's own; a closed stderr or a full disk raises no error."""

import os
from dataclasses import dataclass

from ringtune.system.printable import printable_lines

LEVELS = ("debug", "info", "warning", "error")
STDOUT_DESCRIPTOR, STDERR_DESCRIPTOR = 1, 2


@dataclass(frozen=True)
class Console:
    """Writes lines of at least one level.

    Attributes:
        rank: Named in each line.
        level: The lowest level that is written.
    """

    rank: int
    level: str = "warning"

    def debug(self, text: str) -> None:
        """Write a line that helps to find a fault."""
        self._write("debug", text)

    def info(self, text: str) -> None:
        """Write a line that is good to know."""
        self._write("info", text)

    def warning(self, text: str) -> None:
        """Write a line that the user should act on."""
        self._write("warning", text)

    def _write(self, level: str, text: str) -> None:
        if LEVELS.index(level) >= LEVELS.index(self.level):
            write_line(f"ringtune: {level}: rank {self.rank}: {text}")


def write_line(text: str) -> None:
    """Write one line to stderr with one call, so that lines of several ranks do not mix; without control characters."""
    try:
        os.write(STDERR_DESCRIPTOR, f"{printable_lines(text)}\n".encode("utf-8", "backslashreplace"))
    except OSError:  # nobody listens; there is nobody to tell
        return
