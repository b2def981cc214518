# SPDX-License-Identifier: Apache-2.0
"""One thread waits for everything: descriptors with a callback each, and signals turned into bytes."""

import os
import select
import selectors
import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Protocol

ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
LONGEST_WAIT_S = 1e6  # poll takes milliseconds as 32 bits, some 24 days
_SIGNAL_BYTES = 64


class HasDescriptor(Protocol):
    """A socket, a file or another object with a descriptor."""

    def fileno(self) -> int:
        """Return the descriptor."""


Source = int | HasDescriptor


class EventLoop:
    """Calls back when a descriptor is ready. Not thread-safe; owns none of the descriptors."""

    def __init__(self, *, takes_files: bool = False) -> None:
        """Begin without descriptors.

        Args:
            takes_files: Whether regular files and `/dev/null` can be watched too, which epoll refuses. Such a loop has
                no descriptor of its own, and a turn takes time for each descriptor that it watches.
        """
        self._selector = selectors.PollSelector() if takes_files else selectors.EpollSelector()
        self._chores: list[Callable[[], None]] = []

    def fileno(self) -> int:
        """Return a descriptor that is readable while something waits to be served."""
        assert isinstance(self._selector, selectors.EpollSelector), "a loop that takes files has no descriptor"
        return self._selector.fileno()

    def on_readable(self, source: Source, callback: Callable[[], None]) -> None:
        """Call back whenever there is something to read, or the other end has closed."""
        self._selector.register(source, selectors.EVENT_READ, callback)

    def on_writable(self, source: Source, callback: Callable[[], None]) -> None:
        """Call back whenever something can be written, or the other end has closed."""
        self._selector.register(source, selectors.EVENT_WRITE, callback)

    def forget(self, source: Source) -> None:
        """Stop to watch a descriptor, watched or not; to be called before it is closed."""
        if source in self._selector.get_map():
            self._selector.unregister(source)

    def add_chore(self, chore: Callable[[], None]) -> None:
        """Call `chore` at the end of every turn."""
        self._chores.append(chore)

    def remove_chore(self, chore: Callable[[], None]) -> None:
        """Call a chore no more."""
        self._chores.remove(chore)

    def turn(self, limit_s: float | None) -> None:
        """Wait until something is ready or the limit has passed, and call back; None waits for ever."""
        for key, _ in self._selector.select(limit_s):
            if self._selector.get_map().get(key.fd) is key:  # else an earlier callback of this turn forgot it
                key.data()
        for chore in list(self._chores):
            chore()

    def close(self) -> None:
        """Forget everything; idempotent."""
        self._selector.close()


def first_readable(sources: Iterable[Source], limit_s: float | None) -> int | None:
    """Return a descriptor that can be read, or is at its end, the first of them; None if none is so within the limit.

    Args:
        sources: The descriptors to wait for.
        limit_s: Time limit in seconds, `LONGEST_WAIT_S` at most; None waits for ever.
    """
    return _first(sources, select.POLLIN, limit_s)


def is_readable(source: Source, limit_s: float | None = 0.0) -> bool:
    """Return whether something can be read, or the end has come, within the limit in seconds; None waits for ever."""
    return first_readable([source], limit_s) is not None


def is_writable(source: Source, limit_s: float = 0.0) -> bool:
    """Return whether something can be written, or the other end is closed, within the limit in seconds."""
    return _first([source], select.POLLOUT, limit_s) is not None


def _first(sources: Iterable[Source], event: int, limit_s: float | None) -> int | None:
    poll = select.poll()
    for source in sources:
        poll.register(source, event)
    ready = poll.poll(None if limit_s is None else 1e3 * min(max(limit_s, 0.0), LONGEST_WAIT_S))
    return ready[0][0] if ready else None


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
    """Ignore it: the number reaches the loop through the pipe."""
