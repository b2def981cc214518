# SPDX-License-Identifier: Apache-2.0
"""Waits for other ranks: serves the sockets of a meeting until something is done, has failed, or is late."""

from collections.abc import Callable
from dataclasses import dataclass

from ringtune.errors import CollectiveTimeout
from ringtune.system.event_loop import EventLoop

from .channel import Deadline, NewsSource

TURN_S = 0.25  # longest turn of the loop: connections that say nothing are dropped, and lost ranks noticed, meanwhile


@dataclass(frozen=True)
class Waiting:
    """Waiting of a rank for others while the meeting goes on.

    Attributes:
        loop: Serves the sockets.
        deadline: Deadline of the whole meeting.
        check: Raises the error that ends the waiting early.
        interrupt: The connection whose news end the waiting, for a rank that has only one; see `open_channel`.
    """

    loop: EventLoop
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
            self.loop.turn(min(self.deadline.remaining_s(), TURN_S))
