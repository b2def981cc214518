# SPDX-License-Identifier: Apache-2.0
"""Writes to a descriptor that others share, without ever blocking the loop and without changing the descriptor.

A descriptor that was inherited must not be made non-blocking: others write to it too. So it is asked whether it takes
bytes, and given no more than a pipe takes at once when it says yes.
"""

import os
import select
from collections.abc import Callable

from ringtune.system.event_loop import EventLoop, is_writable

CLOGGED_BYTES = 1 << 20  # waiting bytes at which the sink's feeder should stop to read more
_AT_ONCE_BYTES = select.PIPE_BUF
_WRITES_PER_TURN = 64


class ByteSink:
    """Buffers bytes and writes them as the descriptor takes them. One that takes none any more swallows the rest."""

    def __init__(
        self,
        loop: EventLoop,
        descriptor: int,
        *,
        clogged_bytes: int = CLOGGED_BYTES,
        on_loss: Callable[[OSError], None] | None = None,
    ) -> None:
        """Make a sink.

        Args:
            loop: Writes from within it.
            descriptor: Descriptor to write to; stays the caller's.
            clogged_bytes: Number of waiting bytes at which the sink's feeder should stop.
            on_loss: Called once with the error, after a write has failed: the reader is gone, or a disk is full.
        """
        self._loop = loop
        self._descriptor = descriptor
        self._clogged_bytes = clogged_bytes
        self._on_loss = on_loss
        self._pending = bytearray()
        self._is_watched = False
        self._is_open = True

    @property
    def is_terminal(self) -> bool:
        """True if a person looks at the output."""
        return os.isatty(self._descriptor)

    @property
    def pending_bytes(self) -> int:
        """Number of bytes that wait."""
        return len(self._pending)

    @property
    def is_clogged(self) -> bool:
        """True if so much waits that the feeder should stop."""
        return len(self._pending) >= self._clogged_bytes

    def write(self, data: bytes) -> None:
        """Take bytes; they are written from within the loop."""
        if self._is_open and data:
            self._pending += data
            if not self._is_watched:
                self._loop.on_writable(self._descriptor, self._write_some)
                self._is_watched = True

    def discard(self) -> None:
        """Drop the bytes that wait and all that come."""
        self._is_open = False
        self._pending.clear()
        self._unwatch()

    def _write_some(self) -> None:
        for _ in range(_WRITES_PER_TURN):
            if not self._pending:
                break
            try:
                written = os.write(self._descriptor, self._pending[:_AT_ONCE_BYTES])
            except BlockingIOError:  # somebody has made it non-blocking
                return
            except OSError as error:
                self.discard()
                if self._on_loss is not None:
                    self._on_loss(error)
                return
            del self._pending[:written]
            if not is_writable(self._descriptor):
                return
        if not self._pending:
            self._unwatch()

    def _unwatch(self) -> None:
        if self._is_watched:
            self._loop.forget(self._descriptor)
            self._is_watched = False
