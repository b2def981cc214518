# SPDX-License-Identifier: Apache-2.0
"""The user's request to end a run: signals are noted instead of ending the program, and wake the thread that waits."""

import contextlib
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class StopRequest:
    """State of the request, written by signal handlers.

    Attributes:
        signal_number: The first signal that came, or 0.
        descriptor: Readable once the end is wanted.
    """

    def __init__(self) -> None:
        """Begin without a wish."""
        self.signal_number = 0
        self.descriptor, self._write_end = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)

    def note(self, number: int, frame: object = None) -> None:
        """Take a signal, as its handler."""
        del frame
        self.signal_number = self.signal_number or number
        with contextlib.suppress(BlockingIOError):
            os.write(self._write_end, b"!")

    def close(self) -> None:
        """Let go of the pipe."""
        os.close(self.descriptor)
        os.close(self._write_end)


@contextmanager
def stop_on_signals() -> Iterator[StopRequest]:
    """Take SIGINT and SIGTERM for a wish to end while inside; only for the main thread."""
    with contextlib.closing(StopRequest()) as request:
        earlier = [(number, signal.signal(number, request.note)) for number in SIGNALS]
        try:
            yield request
        finally:
            for number, handler in earlier:
                signal.signal(number, handler)
