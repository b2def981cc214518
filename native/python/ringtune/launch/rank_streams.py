# SPDX-License-Identifier: Apache-2.0
"""Standard output and error of a rank: terminals where the launcher has them, pipes elsewhere.

A rank never gets a terminal as its controlling one: its prompts there could not be answered, and closing it would send
SIGHUP. A change of the window's size is therefore told to the rank's process group by SIGWINCH.
"""

import contextlib
import fcntl
import os
import struct
import termios
from dataclasses import dataclass, replace
from typing import Protocol

from ringtune.meeting.bootstrap.terminal import DEFAULT_COLUMNS

DEFAULT_ROWS = 24
STDOUT, STDERR = 0, 1
"""Numbers of a rank's streams."""


class OutputTaker(Protocol):
    """Takes the ranks' output: the launcher's own streams, and every further receiver of the same bytes."""

    def take(self, rank: int, stream: int, data: bytes) -> None:
        """Take bytes of a rank's stream, in any pieces.

        Args:
            rank: Number of the rank.
            stream: `STDOUT` or `STDERR`. Joined streams are `STDOUT`.
            data: Bytes, at least one, exactly as the rank wrote them.
        """


@dataclass(frozen=True)
class RankStreams:
    """The kind of every rank's standard output and error. All fields are plain: a host agent gets them as JSON.

    Attributes:
        out_is_terminal: Whether standard output is a terminal.
        err_is_terminal: Whether standard error is one.
        is_joined: Whether both are one stream, which keeps the order of output to either.
        rows: Height of the terminals.
        columns: Width of the terminals.
    """

    out_is_terminal: bool = False
    err_is_terminal: bool = False
    is_joined: bool = False
    rows: int = DEFAULT_ROWS
    columns: int = DEFAULT_COLUMNS

    @classmethod
    def like(cls, out: int, err: int) -> "RankStreams":
        """Return the streams that behave as a pair of descriptors of this process does."""
        kinds = cls(_is_terminal(out), _is_terminal(err), is_same_file(out, err))
        return kinds.resized_as(out if kinds.out_is_terminal else err)

    @property
    def has_terminal(self) -> bool:
        """True if a size matters."""
        return self.out_is_terminal or self.err_is_terminal

    def resized_as(self, descriptor: int) -> "RankStreams":
        """Return the same streams with the size of a terminal; unchanged if it tells none."""
        try:
            size = os.get_terminal_size(descriptor)
        except OSError:  # no terminal, or one that is gone
            return self
        return replace(self, rows=size.lines or DEFAULT_ROWS, columns=size.columns or DEFAULT_COLUMNS)

    def apart(self) -> "RankStreams":
        """Return the same streams, not joined: for takers that tell one from the other."""
        return replace(self, is_joined=False)

    def open(self) -> "StreamEnds":
        """Open one rank's streams.

        Raises:
            OSError: If there are no descriptors left.
        """
        out = _open_pair(self, is_terminal=self.out_is_terminal)
        if self.is_joined:
            return StreamEnds(readers=(out[0],), writers=(out[1], out[1]))
        try:
            err = _open_pair(self, is_terminal=self.err_is_terminal)
        except OSError:
            for descriptor in out:
                os.close(descriptor)
            raise
        return StreamEnds(readers=(out[0], err[0]), writers=(out[1], err[1]))


@dataclass(frozen=True)
class StreamEnds:
    """Descriptors of one rank's streams.

    Attributes:
        readers: This process's ends, by stream; one if the streams are joined.
        writers: The rank's standard output and error.
    """

    readers: tuple[int, ...]
    writers: tuple[int, int]

    def close_writers(self) -> None:
        """Leave the writers to the rank."""
        for descriptor in set(self.writers):
            os.close(descriptor)

    def close_readers(self) -> None:
        """Give up the streams."""
        for descriptor in self.readers:
            os.close(descriptor)


def is_same_file(first: int, second: int) -> bool:
    """Return whether two descriptors end in the same file, pipe or terminal."""
    try:
        return os.path.sameopenfile(first, second)
    except OSError:  # one is closed
        return False


def set_size(descriptor: int, streams: RankStreams) -> None:
    """Give a terminal its size; a pipe has none."""
    with contextlib.suppress(OSError):
        fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", streams.rows, streams.columns, 0, 0))


def readable_bytes(descriptor: int) -> int:
    """Return how many bytes stand in a pipe or a terminal, as far as the kernel tells."""
    count = struct.pack("i", 0)
    return int(struct.unpack("i", fcntl.ioctl(descriptor, termios.FIONREAD, count))[0])


def _is_terminal(descriptor: int) -> bool:
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def _open_pair(streams: RankStreams, *, is_terminal: bool) -> tuple[int, int]:
    """Return a reader and a writer; a pipe's where the system has no more terminals to give."""
    if not is_terminal:
        return os.pipe()
    try:
        ours, theirs = os.openpty()
    except OSError:  # no /dev/pts in a container, or all are taken
        return os.pipe()
    attributes = termios.tcgetattr(theirs)
    attributes[1] &= ~termios.OPOST  # bytes pass as they are: the user's terminal does the rest
    attributes[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, attributes)
    set_size(theirs, streams)
    return ours, theirs
