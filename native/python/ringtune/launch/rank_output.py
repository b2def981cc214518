# SPDX-License-Identifier: Apache-2.0
"""Shows what many ranks write on one pair of streams: whole lines, each with its rank in front, not a byte lost.

An unfinished line is shown after a moment, so that a prompt or a progress bar is seen while it is live. A line that
another rank's unfinished one would run into begins on a fresh line; a live line (one that is rewritten after a
carriage return) is wiped instead, where a person looks at it, and comes back with its next update.
"""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .byte_sink import ByteSink

PARTIAL_LINE_S = 0.2  # longer than the pieces of one print() are apart, short for a person who waits
MAX_LINE_BYTES = 1 << 16
WIPE_LINE = b"\r\x1b[K"
# Where a line, or one version of a live line, is over. A return at the very end waits: a line feed may follow.
_END_OF_PIECE = re.compile(rb"(?<=\n)|(?<=\r)(?=[^\r\n])")


@dataclass
class _Source:
    """One stream of one rank: what it wrote that was not shown yet."""

    prefix: bytes
    screen: "_Screen"
    pending: bytearray = field(default_factory=bytearray)
    waits_since_s: float = 0.0
    is_at_start: bool = True
    is_live: bool = False


@dataclass
class _Screen:
    """What one sink ends on: whose unfinished line stands there."""

    is_terminal: bool
    holder: _Source | None = None

    def fresh_line(self) -> bytes:
        """Return what ends another's unfinished line."""
        if self.holder is None:
            return b""
        is_wiped = self.is_terminal and self.holder.is_live
        self.holder = None
        return WIPE_LINE if is_wiped else b"\n"


class RankOutput:
    """Takes what ranks write, in any pieces, and writes lines to the launcher's own streams."""

    def __init__(
        self,
        sinks: tuple[ByteSink, ByteSink],
        prefix: Callable[[int], bytes],
    ) -> None:
        """Make the output of a job.

        Args:
            sinks: Standard output and error; the same one where both end in the same place, so that no line is torn.
            prefix: Returns what stands before a line of a rank.
        """
        self._sinks = sinks
        first = _Screen(sinks[0].is_terminal)
        self._screens = (first, first if sinks[0] is sinks[1] else _Screen(sinks[1].is_terminal))
        self._prefix = prefix
        self._sources: dict[tuple[int, int], _Source] = {}

    @property
    def is_clogged(self) -> bool:
        """Whether whoever feeds this should stop for now."""
        return any(sink.is_clogged for sink in self._sinks)

    @property
    def pending_bytes(self) -> int:
        """How many bytes wait to be written."""
        return sum(sink.pending_bytes for sink in set(self._sinks))

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Take bytes that a rank wrote.

        Args:
            rank: Which.
            stream: 0 for standard output, 1 for standard error.
            data: Any bytes.
        """
        source = self._sources.get((rank, stream))
        if source is None:
            source = _Source(self._prefix(rank), self._screens[stream])
            self._sources[rank, stream] = source
        source.pending += data
        source.waits_since_s = time.monotonic()
        text, start = bytes(source.pending), 0
        for match in _END_OF_PIECE.finditer(text):
            self._show(source, stream, text[start : match.end()])
            start = match.end()
        del source.pending[:start]
        if len(source.pending) > MAX_LINE_BYTES:
            self._show_rest(source, stream)

    def show_waiting(self) -> float | None:
        """Show unfinished lines that have waited long enough; return the seconds until the next one will have."""
        now_s = time.monotonic()
        soonest_s = None
        for (_, stream), source in self._sources.items():
            if source.pending:
                left_s = source.waits_since_s + PARTIAL_LINE_S - now_s
                if left_s <= 0:
                    self._show_rest(source, stream)
                else:
                    soonest_s = left_s if soonest_s is None else min(soonest_s, left_s)
        return soonest_s

    def show_all(self) -> None:
        """Show every unfinished line: nothing more will come."""
        for (_, stream), source in self._sources.items():
            if source.pending:
                self._show_rest(source, stream)

    def announce(self, text: str) -> None:
        """Write a line of the launcher's own to standard error."""
        line = self._screens[1].fresh_line() + f"{text}\n".encode("utf-8", "backslashreplace")
        self._sinks[1].write(line)

    def discard(self) -> None:
        """Drop what waits and all that comes."""
        for sink in self._sinks:
            sink.discard()

    def _show_rest(self, source: _Source, stream: int) -> None:
        piece = bytes(source.pending)
        source.pending.clear()
        self._show(source, stream, piece)

    def _show(self, source: _Source, stream: int, piece: bytes) -> None:
        """Write a piece of a line, its end included if it has one."""
        screen = source.screen
        if not piece.strip(b"\r"):  # only goes back to the start of its line, which another may have taken over
            if screen.holder is source:
                self._sinks[stream].write(piece)
            source.is_at_start = source.is_live = True
            return
        is_continued = screen.holder is source and not source.is_at_start
        text = b"" if screen.holder is source else screen.fresh_line()
        self._sinks[stream].write(text + (b"" if is_continued else source.prefix) + piece)
        is_whole = piece.endswith(b"\n")
        source.is_at_start = piece.endswith((b"\r", b"\n"))
        source.is_live = not is_whole and (source.is_live or piece.endswith(b"\r"))
        screen.holder = None if is_whole else source
