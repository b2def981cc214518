# SPDX-License-Identifier: Apache-2.0
"""Last words of each rank: the error of the one that failed first is repeated, below the later output of the others."""

import re

from ringtune.system.printable import shown

from .rank_streams import STDERR, STDOUT

TAIL_BYTES = 16 << 10  # kept end of a rank's messages: a traceback's, and what a teardown writes after it
MAX_ERROR_CHARACTERS = 300
_STYLE = re.compile(rb"\x1b\[[0-9;]*m")  # colours of a traceback on a terminal
_HEADER = "Traceback (most recent call last):"
_IGNORED = "Exception ignored "  # opening of the line before a traceback that ended nothing
_ERROR = re.compile(r"(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?:Error|Exception|Interrupt|Exit|Failed|Timeout)(?:: .*)?")


class LastWords:
    """Keeps the end of each rank's output; see `OutputTaker`."""

    def __init__(self, *, is_joined: bool) -> None:
        """Begin with empty tails.

        Args:
            is_joined: Whether a rank's standard output and error are one stream, in which messages stand among results.
        """
        self._stream = STDOUT if is_joined else STDERR
        self._is_joined = is_joined
        self._tails: dict[int, bytes] = {}

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Keep the end."""
        if stream == self._stream:
            self._tails[rank] = (self._tails.get(rank, b"") + data[-TAIL_BYTES:])[-TAIL_BYTES:]

    def error_of(self, rank: int) -> str:
        """Return the last error in a rank's output, in one line; empty where no line looks like one."""
        text = _STYLE.sub(b"", self._tails.get(rank, b"")).decode("utf-8", "replace")
        lines = [line.rstrip() for line in text.splitlines()]
        error = _raised(lines) or next((line for line in reversed(lines) if _ERROR.fullmatch(line)), "")
        if not error and not self._is_joined:
            error = next((line for line in reversed(lines) if line), "")
        return shown(error.strip(), MAX_ERROR_CHARACTERS)


def _raised(lines: list[str]) -> str:
    """Return the line after the frames of the last traceback that ended something; empty where there is none."""
    for number in reversed(range(len(lines))):
        is_header = lines[number].endswith(_HEADER)
        if is_header and not (number and lines[number - 1].startswith(_IGNORED)):
            return next((line for line in lines[number + 1 :] if line and not line[0].isspace()), "")
    return ""
