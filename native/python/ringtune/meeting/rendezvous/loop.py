# SPDX-License-Identifier: Apache-2.0
"""Waits for several sockets at once and calls whoever serves the one that is ready."""

import selectors
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ringtune.errors import CollectiveTimeout

from .channel import Deadline, NewsSource

TURN_S = 0.25  # delay until a deadline is noticed while nothing happens


class Source(Protocol):
    """Something that a selector can watch."""

    def fileno(self) -> int:
        """Return the descriptor."""


class Loop:
    """Serves sockets turn by turn. Not thread-safe; owns none of the sockets."""

    def __init__(self) -> None:
        self._selector = selectors.EpollSelector()
        self._chores: list[Callable[[], None]] = []

    def fileno(self) -> int:
        """Return a descriptor that is readable while something waits to be served."""
        return self._selector.fileno()

    def add(self, source: Source, serve: Callable[[], None]) -> None:
        """Call `serve` in every turn in which the source can be read."""
        self._selector.register(source, selectors.EVENT_READ, serve)

    def remove(self, source: Source) -> None:
        """Forget a source, before it is closed."""
        self._selector.unregister(source)

    def add_chore(self, chore: Callable[[], None]) -> None:
        """Call `chore` at the end of every turn."""
        self._chores.append(chore)

    def remove_chore(self, chore: Callable[[], None]) -> None:
        """Call a chore no more."""
        self._chores.remove(chore)

    def turn(self, limit_s: float) -> None:
        """Serve what is ready; wait for it at most `TURN_S`, and no longer than `limit_s`."""
        for key, _ in self._selector.select(min(limit_s, TURN_S)):
            current = self._selector.get_map().get(key.fd)
            if current is not None and current.data is key.data:  # else it left in this very turn
                key.data()
        for chore in list(self._chores):
            chore()

    def close(self) -> None:
        """Forget all sources; idempotent."""
        self._selector.close()


@dataclass(frozen=True)
class Waiting:
    """Waiting of a rank for others while the meeting goes on.

    Attributes:
        loop: Serves the sockets.
        deadline: Deadline of the whole meeting.
        check: Raises what ends the waiting early.
        interrupt: The connection whose news end the waiting, for a rank that has only one; see `open_channel`.
    """

    loop: Loop
    deadline: Deadline
    check: Callable[[], None]
    interrupt: NewsSource | None = None

    def until(self, is_done: Callable[[], bool], describe_late: Callable[[], str]) -> None:
        """Serve the loop until something is done.

        Raises:
            CollectiveTimeout: At the deadline, with the text of `describe_late`.
        """
        while True:
            self.check()
            if is_done():
                return
            if self.deadline.has_passed():
                raise CollectiveTimeout(describe_late())
            self.loop.turn(self.deadline.remaining_s())
