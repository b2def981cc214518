# SPDX-License-Identifier: Apache-2.0
"""One thread waits for everything: descriptors with a callback each, and signals turned into bytes."""

import os
import selectors
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_SIGNAL_BYTES = 64


class EventLoop:
    """Calls back when a descriptor is ready. Uses poll, which also takes regular files and terminals."""

    def __init__(self) -> None:
        self._selector = selectors.PollSelector()

    def on_readable(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back whenever there is something to read, or the other end has closed."""
        self._selector.register(descriptor, selectors.EVENT_READ, callback)

    def on_writable(self, descriptor: int, callback: Callable[[], None]) -> None:
        """Call back whenever something can be written, or the other end has closed."""
        self._selector.register(descriptor, selectors.EVENT_WRITE, callback)

    def forget(self, descriptor: int) -> None:
        """Stop to look at a descriptor, watched or not; to be called before it is closed."""
        if descriptor in self._selector.get_map():
            self._selector.unregister(descriptor)

    def turn(self, limit_s: float | None) -> None:
        """Wait until something is ready or the limit has passed, and call back; None waits for ever."""
        for key, _ in self._selector.select(limit_s):
            if self._selector.get_map().get(key.fd) is key:  # else an earlier callback of this turn forgot it
                key.data()

    def close(self) -> None:
        """Forget everything."""
        self._selector.close()


@contextmanager
def signals_in(loop: EventLoop, callback: Callable[[int], None], extra: tuple[int, ...] = ()) -> Iterator[None]:
    """Call back with the number of each signal that comes, from within the loop.

    Args:
        loop: Loop that calls back.
        callback: Takes the signal's number.
        extra: Signals to heed besides `ENDING_SIGNALS`. Ignored ones stay ignored: nohup stays nohup.
    """
    read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def take() -> None:
        for number in os.read(read_end, _SIGNAL_BYTES):
            callback(number)

    heeded = [number for number in (*ENDING_SIGNALS, *extra) if signal.getsignal(number) is not signal.SIG_IGN]
    old_handlers = {number: signal.signal(number, _ignore) for number in heeded}
    old_descriptor = signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
    loop.on_readable(read_end, take)
    try:
        yield
    finally:
        signal.set_wakeup_fd(old_descriptor)
        for number, handler in old_handlers.items():
            signal.signal(number, handler)
        loop.forget(read_end)
        os.close(read_end)
        os.close(write_end)


def _ignore(_number: int, _frame: object) -> None:
    """Do nothing: the number reaches the loop through the pipe."""
