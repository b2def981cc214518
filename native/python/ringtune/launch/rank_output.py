# SPDX-License-Identifier: Apache-2.0
"""Shows the output of many ranks on one pair of streams: lines stay whole, and not a byte is lost.

The way of a line: a rank's stream -> `take` -> the taps, which get the bytes as they are -> the source's `pending` ->
a screen (one of the launcher's streams) -> its `ByteSink`. A line goes on when it has ended. An unfinished one is shown
after a moment, so that a prompt or a progress bar is seen while it is live, and then *claims* its screen: lines of
others wait until it has ended, for `CLAIM_S` at most and once per line.

A line that another's unfinished one would run into begins on a fresh line, on a terminal and where lines have a prefix.
Elsewhere every byte comes out that went in, and no other: output may be binary. On a terminal a live line (one that is
rewritten after a carriage return) makes no claim: it is wiped for another's line and comes back with its next update.
"""

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial

from ringtune.system.printable import printable_lines

from .byte_sink import ByteSink
from .rank_streams import OutputTaker

PARTIAL_LINE_S = 0.2  # longer than the pieces of one print() are apart, short for a person who waits
LONGEST_PARTIAL_S = 2.0  # for a line that grows all the time, as a progress bar in a pipe does
CLAIM_S = 5.0  # for the rest of a line that was shown unfinished: a rank may get no processor for a second
MAX_LINE_BYTES = 1 << 16
NEVER_S = float("inf")
BACKLOG_BYTES = 8 << 20  # output that waits for its reader before the ranks are held back
WIPE_LINE = b"\r\x1b[K"
# End of a line, or of one version of a live line. A return at the very end waits: a line feed may follow.
_END_OF_PIECE = re.compile(rb"(?<=\n)|(?<=\r)(?=[^\r\n])")


def line_prefix(*, has_rank: bool, has_time: bool) -> Callable[[int], bytes]:
    """Return a function that returns the prefix of a line of a rank that is shown now.

    Args:
        has_rank: Whether the rank does, as `[3] `.
        has_time: Whether this machine's local time does, to the millisecond and with its offset from UTC.
    """

    def prefix(rank: int) -> bytes:
        time = f"{datetime.now().astimezone().isoformat(timespec='milliseconds')} " if has_time else ""
        return f"{time}[{rank}] ".encode() if has_rank else time.encode()

    return prefix


@dataclass(eq=False)
class _RankSource:
    """One stream of one rank: its output that was not shown yet."""

    prefix: Callable[[], bytes]
    screen: "_LauncherScreen"
    pending: bytearray = field(default_factory=bytearray)
    began_s: float = 0.0  # when the first byte of `pending` came
    changed_s: float = 0.0  # when the last one came
    is_at_start: bool = True
    is_live: bool = False
    was_broken: bool = False  # its line was shown in pieces, with others between them

    @property
    def waits(self) -> bool:
        """True if it has an unfinished line, and no other source's line keeps it from being shown."""
        return bool(self.pending) and self not in self.screen.queue

    def due_s(self) -> float:
        """Return when its unfinished line is to be shown."""
        return min(self.changed_s + PARTIAL_LINE_S, self.began_s + LONGEST_PARTIAL_S)


@dataclass(eq=False)
class _LauncherScreen:
    """One of the launcher's streams: the source of the unfinished line there, and the sources that wait for its end."""

    sink: ByteSink
    adds_line_ends: bool
    holder: _RankSource | None = None
    claim_ends_s: float | None = None
    queue: dict[_RankSource, None] = field(default_factory=dict)  # ordered

    def is_claimed_from(self, source: _RankSource) -> bool:
        """Return whether a source has to wait for another's line."""
        return self.claim_ends_s is not None and self.holder is not source

    def hold(self, source: _RankSource | None, now_s: float) -> None:
        """Note whose unfinished line stands there, None for nobody's."""
        if self.holder is not None and self.holder is not source:
            self.holder.was_broken = True
        if source is None or source.is_live or source.was_broken:
            self.claim_ends_s = None
        elif self.holder is not source:
            self.claim_ends_s = now_s + CLAIM_S
        self.holder = source

    def fresh_line(self, source: _RankSource) -> bytes:
        """Return the bytes that keep a source's text from running into another's unfinished line."""
        return self.line_end() if self.adds_line_ends and self.holder not in (None, source) else b""

    def line_end(self) -> bytes:
        """Return the bytes that end the unfinished line there."""
        is_live = self.holder is not None and self.holder.is_live
        return WIPE_LINE if self.sink.is_terminal and is_live else b"\n"


class RankOutput:
    """Takes the ranks' output, in any pieces, and writes lines to the launcher's own streams."""

    def __init__(
        self,
        sinks: tuple[ByteSink, ByteSink],
        prefix: Callable[[int], bytes],
        taps: Sequence[OutputTaker] = (),
    ) -> None:
        """Make the output of a job.

        Args:
            sinks: Standard output and error; the same one where both end in the same place, so that no line is torn.
            prefix: Returns the prefix of a line of a rank; empty for none. Called again for each piece that is
                shown.
            taps: Get all of the ranks' output as well, byte for byte, before it is put into lines.
        """
        self._sinks = sinks
        has_prefix = bool(prefix(0))
        first = _LauncherScreen(sinks[0], has_prefix or sinks[0].is_terminal)
        second = first if sinks[0] is sinks[1] else _LauncherScreen(sinks[1], has_prefix or sinks[1].is_terminal)
        self._screens = (first, second)
        self._prefix = prefix
        self._taps = tuple(taps)
        self._sources: dict[tuple[int, int], _RankSource] = {}
        self._was_clogged = False

    @property
    def is_clogged(self) -> bool:
        """True if whoever feeds this should stop for now."""
        queued = sum(len(source.pending) for screen in set(self._screens) for source in screen.queue)
        return queued >= BACKLOG_BYTES or any(sink.is_clogged for sink in self._sinks)

    @property
    def pending_bytes(self) -> int:
        """Number of bytes that wait to be written."""
        return sum(sink.pending_bytes for sink in set(self._sinks))

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Take bytes that a rank wrote; see `OutputTaker`."""
        for tap in self._taps:
            tap.take(rank, stream, data)
        source = self._sources.get((rank, stream))
        if source is None:
            source = self._sources[rank, stream] = _RankSource(partial(self._prefix, rank), self._screens[stream])
        source.changed_s = time.monotonic()
        if not source.pending:
            source.began_s = source.changed_s
        source.pending += data
        self._advance(source, source.changed_s)
        self._serve_queue(source.screen, source.changed_s)

    def show_waiting(self) -> float | None:
        """Show unfinished lines that have waited long enough, and end claims that have lasted long enough.

        Returns:
            Seconds until this is due again, None if no line waits.
        """
        now_s = time.monotonic()
        if any(sink.is_clogged for sink in self._sinks):  # nothing is read meanwhile: nobody can finish a line
            self._was_clogged = True
            return None
        if self._was_clogged:
            self._restart_clocks(now_s)
        soonest_s = min(self._end_claim(screen, now_s) for screen in self._screens)
        for source in self._sources.values():
            if source.waits and source.due_s() <= now_s:
                self._show_rest(source, now_s)
            elif source.waits:
                soonest_s = min(soonest_s, source.due_s())
        return None if soonest_s == NEVER_S else max(0.0, soonest_s - now_s)

    def show_all(self) -> None:
        """Show every unfinished line: no more output will come."""
        now_s = time.monotonic()
        for screen in set(self._screens):
            while screen.queue:
                self._release(screen, now_s)
        for source in self._sources.values():
            self._show_upto(source, len(source.pending), now_s)

    def announce(self, text: str) -> None:
        """Write a line of the launcher's own to standard error."""
        screen = self._screens[1]
        end = b"" if screen.holder is None else screen.line_end()
        screen.sink.write(end + f"{printable_lines(text)}\n".encode("utf-8", "backslashreplace"))
        screen.hold(None, time.monotonic())

    def discard(self) -> None:
        """Drop the lines that wait and all that come."""
        for sink in self._sinks:
            sink.discard()

    def _advance(self, source: _RankSource, now_s: float) -> None:
        """Show a source's output as far as it can be shown."""
        screen = source.screen
        if screen.is_claimed_from(source):
            screen.queue[source] = None
            return
        if screen.sink.is_terminal and b"\r" in source.pending:
            self._show_versions(source, now_s)
        else:
            self._show_upto(source, source.pending.rfind(b"\n") + 1, now_s)
        if screen.holder is source or len(source.pending) > MAX_LINE_BYTES:
            self._show_upto(source, len(source.pending.rstrip(b"\r")), now_s)  # a line feed may follow a return

    def _serve_queue(self, screen: _LauncherScreen, now_s: float) -> None:
        """Let the sources that have waited for another's line go on, until one of them claims the screen."""
        while screen.queue and screen.claim_ends_s is None:
            source = next(iter(screen.queue))
            del screen.queue[source]
            self._advance(source, now_s)

    def _end_claim(self, screen: _LauncherScreen, now_s: float) -> float:
        """End a claim that has lasted too long; return when one will have."""
        if screen.claim_ends_s is not None and screen.claim_ends_s > now_s:
            return screen.claim_ends_s
        if screen.queue:
            self._release(screen, now_s)
        return NEVER_S

    def _release(self, screen: _LauncherScreen, now_s: float) -> None:
        screen.claim_ends_s = None
        self._serve_queue(screen, now_s)

    def _restart_clocks(self, now_s: float) -> None:
        """Count time anew, after one in which no output was read."""
        self._was_clogged = False
        for screen in self._screens:
            if screen.claim_ends_s is not None:
                screen.claim_ends_s = now_s + CLAIM_S
        for source in self._sources.values():
            source.began_s = source.changed_s = now_s

    def _show_rest(self, source: _RankSource, now_s: float) -> None:
        """Show an unfinished line, unless it has to wait for another's."""
        if source.screen.is_claimed_from(source):
            source.screen.queue[source] = None
        else:
            self._show_upto(source, len(source.pending), now_s)
            self._serve_queue(source.screen, now_s)

    def _show_versions(self, source: _RankSource, now_s: float) -> None:
        """Show lines and versions of live lines, one after the other."""
        text, start = bytes(source.pending), 0
        for match in _END_OF_PIECE.finditer(text):
            self._show(source, text[start : match.end()], now_s)
            start = match.end()
        del source.pending[:start]

    def _show_upto(self, source: _RankSource, length: int, now_s: float) -> None:
        if length:
            piece = bytes(source.pending[:length])
            del source.pending[:length]
            self._show(source, piece, now_s)

    def _go_back(self, source: _RankSource, returns: bytes, now_s: float) -> None:
        """Go to the start of a source's line, which another may have taken over."""
        if source.screen.holder is source:
            source.screen.sink.write(returns)
        source.is_at_start = source.is_live = True
        source.screen.hold(source.screen.holder, now_s)

    def _show(self, source: _RankSource, piece: bytes, now_s: float) -> None:
        """Write one or more whole lines, or a piece of one, with its end if it has one."""
        screen = source.screen
        if screen.sink.is_terminal and not piece.strip(b"\r"):
            self._go_back(source, piece, now_s)
            return
        is_continued = screen.holder is source and not source.is_at_start
        prefix = source.prefix()
        body = piece.replace(b"\n", b"\n" + prefix, piece.count(b"\n", 0, len(piece) - 1))
        screen.sink.write(screen.fresh_line(source) + (b"" if is_continued else prefix) + body)
        if piece.endswith(b"\n"):
            screen.hold(None, now_s)
            source.is_at_start, source.is_live, source.was_broken = True, False, False
        else:
            source.is_at_start = screen.sink.is_terminal and piece.endswith(b"\r")
            source.is_live = source.is_live or source.is_at_start
            screen.hold(source, now_s)
