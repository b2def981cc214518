# SPDX-License-Identifier: Apache-2.0
"""A line on the terminal that is redrawn in place while others, in this process and outside, print there as well.

Other writers cannot be asked to make room: the training's own lines, its progress bar, other ranks. On a terminal the
live line therefore stands *below* the line of the cursor, and the cursor stays where it was: a progress bar keeps its
line, and the next output overwrites the live line, which comes back one line further down.

Where stderr is a terminal whose output a launcher shows on the user's, the launcher does this for all ranks: a line
that ends with a carriage return is live for it (`launch.rank_output`).
"""

import os
import threading
from dataclasses import dataclass

from ringtune.meeting.bootstrap import environment, terminal
from ringtune.system.console import STDERR_DESCRIPTOR

REDRAW_S = 0.25  # longest time that other output may hide the line, seconds
_ERASE_BELOW = "\x1b[J"  # erases from the cursor on: the line that was drawn before
_MAKE_ROOM = "\x1bD\x1b[A"  # a line below the cursor, which stays in its column; the last line scrolls
_SAVE, _BELOW, _RESTORE = "\x1b7", "\x1b[B\r", "\x1b8"
_ERASE_REST = "\x1b[K"
_PREFIX_COLUMNS = 8  # width of the prefix that a launcher may put before a line


@dataclass(frozen=True)
class LineScreen:
    """The terminal on which a live line is seen.

    Attributes:
        is_relayed: True where a launcher relays this terminal's output, among the lines of other ranks.
    """

    is_relayed: bool = False

    @property
    def columns(self) -> int:
        """Columns that a line may fill without being broken."""
        try:
            width = os.get_terminal_size(STDERR_DESCRIPTOR).columns
        except OSError:  # the terminal is gone
            width = 0
        return (width or terminal.DEFAULT_COLUMNS) - (_PREFIX_COLUMNS if self.is_relayed else 1)


def find_screen() -> LineScreen | None:
    """Return the terminal for a live line; None where stderr ends in a file, a pipe or a dumb terminal."""
    environ = environment()
    if not os.isatty(STDERR_DESCRIPTOR) or not terminal.can_move_cursor(environ):
        return None
    return LineScreen(is_relayed=terminal.is_relayed(environ))


class LiveLine:
    """One line, redrawn a few times a second by a thread of its own while it is shown."""

    def __init__(self, screen: LineScreen) -> None:
        self._screen = screen
        self._lock = threading.Lock()  # guards _text, and that nothing is drawn after close()
        self._text: str | None = None
        self._hidden = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, text: str) -> None:
        """Show a text from now on."""
        with self._lock:
            self._text = text
            self._draw(text)
        if self._thread is None:
            self._hidden.clear()
            self._thread = threading.Thread(target=self._redraw, name="ringtune-live-line", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wipe the line; `show` brings it back."""
        if self._thread is None:
            return
        with self._lock:
            self._text = None
            _write(f"{_ERASE_REST}\r" if self._screen.is_relayed else _ERASE_BELOW)
        self._hidden.set()
        self._thread.join()
        self._thread = None

    def _redraw(self) -> None:
        while not self._hidden.wait(REDRAW_S):
            with self._lock:
                if self._text is not None:
                    self._draw(self._text)

    def _draw(self, text: str) -> None:
        columns = self._screen.columns
        shown = text if len(text) <= columns else f"{text[: max(columns - 1, 0)]}…"
        if self._screen.is_relayed:
            _write(f"{shown}{_ERASE_REST}\r")
        else:
            _write(f"{_ERASE_BELOW}{_MAKE_ROOM}{_SAVE}{_BELOW}{shown}{_RESTORE}")


def _write(text: str) -> None:
    """Write with one call, so that no other output comes in between."""
    try:
        os.write(STDERR_DESCRIPTOR, text.encode("utf-8", "backslashreplace"))
    except OSError:  # the terminal is gone
        return
