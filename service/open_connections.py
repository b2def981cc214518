# SPDX-License-Identifier: Apache-2.0
"""Places for connections: how many there may be, which one goes when another comes, and which are overdue.

A connection is *known* once a request on it had a valid token; all others are strangers. Strangers never hold all
places: a share is kept for the known. The known never hold all places either: a newcomer, such as a health check, is a
stranger until its head has come. The first to go is the stranger that has been without a whole request head the
longest. Knows no sockets.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

RESERVED_SHARE = 4
"""One place in so many is for known connections alone."""
NEWCOMERS_SHARE = 16
"""One place in so many is never held by known connections."""


class Awaited(Enum):
    """The event that a connection is waiting for."""

    HEAD = "head"
    """The end of a request's head; the first bytes, too."""
    WORK = "work"
    """The end of a reply."""
    IDLE = "idle"
    """Another request."""


class Reason(Enum):
    """The reason for which the service closed a connection."""

    FULL = "full"
    """Another one needed the place."""
    HEAD_TIMEOUT = "head_timeout"
    """Its request's head did not come in time."""
    UNREAD = "unread"
    """The client did not read the reply."""
    IDLE = "idle"
    """No other request came."""


class Closable(Protocol):
    """A connection, as far as its place is concerned."""

    def close_for(self, reason: Reason) -> None:
        """End the connection at once."""
        ...


@dataclass(frozen=True)
class ConnectionLimits:
    """Bounds on connections.

    Attributes:
        connections_max: Maximum number of open connections.
        head_s: Seconds for a request's head.
        idle_s: Seconds between a reply and the next request.
        unread_s: Seconds in which a client may leave a reply unread.
    """

    connections_max: int
    head_s: float
    idle_s: float = 30.0
    unread_s: float = 60.0

    @property
    def strangers_max(self) -> int:
        """Return the maximum number of strangers."""
        return self.connections_max - max(1, self.connections_max // RESERVED_SHARE)

    @property
    def known_max(self) -> int:
        """Return the maximum number of known connections."""
        return self.connections_max - max(1, self.connections_max // NEWCOMERS_SHARE)


@dataclass
class _Standing:
    phase: Awaited
    is_known: bool = False


class OpenConnections:
    """The open connections in the order in which each began to wait; used from the event loop alone."""

    def __init__(self, limits: ConnectionLimits, clock: Callable[[], float]) -> None:
        """Begin without connections; `clock` is in seconds."""
        self.limits = limits
        self._clock = clock
        self._places: dict[Closable, _Standing] = {}
        self._known_queues = {phase: OrderedDict[Closable, float]() for phase in Awaited}
        self._stranger_queues = {phase: OrderedDict[Closable, float]() for phase in Awaited}
        self._unread = OrderedDict[Closable, float]()

    def __len__(self) -> int:
        """Return how many connections there are."""
        return len(self._places)

    @property
    def known(self) -> int:
        """Return the number of known connections."""
        return sum(map(len, self._known_queues.values()))

    @property
    def strangers(self) -> int:
        """Return the number of unknown connections."""
        return sum(map(len, self._stranger_queues.values()))

    def admit(self, connection: Closable) -> None:
        """Give a newcomer a place; the connection that has to make room for it is closed."""
        strangers, known = self._stranger_queues, self._known_queues
        if self.strangers >= self.limits.strangers_max:
            self._displace((strangers[Awaited.HEAD], strangers[Awaited.IDLE], strangers[Awaited.WORK]))
        elif len(self) >= self.limits.connections_max:
            in_order = (
                strangers[Awaited.HEAD],
                strangers[Awaited.IDLE],
                known[Awaited.HEAD],
                known[Awaited.IDLE],
            )
            self._displace((*in_order, strangers[Awaited.WORK]))
        self._places[connection] = _Standing(Awaited.HEAD)
        strangers[Awaited.HEAD][connection] = self._clock()

    def recognise(self, connection: Closable) -> bool:
        """Make a connection known; False if so many known ones are at work that it cannot be."""
        place = self._places.get(connection)
        if place is None or place.is_known:
            return True
        if self.known >= self.limits.known_max and not self.displace_known():
            return False
        since_s = self._queue(place).pop(connection)
        place.is_known = True
        self._queue(place)[connection] = since_s
        return True

    def wait_for(self, connection: Closable, phase: Awaited) -> None:
        """Note the event that a connection waits for; its time begins anew unless it waits for its head already."""
        place = self._places.get(connection)
        if place is None or place.phase is phase is Awaited.HEAD:
            return
        del self._queue(place)[connection]
        place.phase = phase
        self._queue(place)[connection] = self._clock()

    def note_unread(self, connection: Closable, *, is_unread: bool) -> None:
        """Note that a client stopped reading its reply, or that it reads on."""
        self._unread.pop(connection, None)
        if is_unread and connection in self._places:
            self._unread[connection] = self._clock()

    def remove(self, connection: Closable) -> None:
        """Forget a connection that has ended; again is allowed."""
        self._unread.pop(connection, None)
        place = self._places.pop(connection, None)
        if place is not None:
            del self._queue(place)[connection]

    def displace_stranger(self) -> bool:
        """Close the stranger that is the first to go; False if there is none."""
        queues = self._stranger_queues
        return self._displace((queues[Awaited.HEAD], queues[Awaited.IDLE], queues[Awaited.WORK]))

    def displace_known(self) -> bool:
        """Close the known connection that has been idle the longest; False if there is none."""
        return self._displace((self._known_queues[Awaited.HEAD], self._known_queues[Awaited.IDLE]))

    def close_overdue(self) -> None:
        """Close every connection that has waited for too long."""
        for queues in (self._stranger_queues, self._known_queues):
            self._close_older(queues[Awaited.HEAD], self.limits.head_s, Reason.HEAD_TIMEOUT)
            self._close_older(queues[Awaited.IDLE], self.limits.idle_s, Reason.IDLE)
        self._close_older(self._unread, self.limits.unread_s, Reason.UNREAD)

    def _close_older(self, queue: OrderedDict[Closable, float], limit_s: float, reason: Reason) -> None:
        for connection in list(_older(queue, self._clock() - limit_s)):
            self._close(connection, reason)

    def _displace(self, queues: tuple[OrderedDict[Closable, float], ...]) -> bool:
        """Close the oldest connection of the first queue that has one."""
        for queue in queues:
            if queue:
                self._close(next(iter(queue)), Reason.FULL)
                return True
        return False

    def _close(self, connection: Closable, reason: Reason) -> None:
        self.remove(connection)
        connection.close_for(reason)

    def _queue(self, place: _Standing) -> OrderedDict[Closable, float]:
        queues = self._known_queues if place.is_known else self._stranger_queues
        return queues[place.phase]


def _older(queue: OrderedDict[Closable, float], since_s: float) -> Iterator[Closable]:
    """Yield the connections at the head of a queue that have waited since then."""
    for connection, begun_s in queue.items():
        if begun_s > since_s:
            return
        yield connection
