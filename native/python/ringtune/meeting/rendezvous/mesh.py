# SPDX-License-Identifier: Apache-2.0
"""The TCP connections of a world of several hosts: control between rank 0 and other hosts, data between all ranks.

Every rank listens on the interface that leads to rank 0, on a port that the kernel chooses; the higher rank of a pair
calls the lower. Each connection is proved by the job key on both sides. Without TLS it then carries clear text.
"""

import os
from collections.abc import Sequence

from .address import Address, bound_address, listen
from .admission import Caller, acceptor_of_members
from .channel import Channel
from .connector import Destination, open_channel
from .layout import Layout
from .place import close_descriptors
from .proof import Membership
from .tls import Session
from .waiting import Waiting

CONTROL = "control"
DATA = "data"
NO_SOCKET = -1

Line = tuple[str, int]
"""Purpose and peer of one connection."""


class Mesh:
    """One rank's connections to other hosts: `connect()`, then `take_sockets()`; `close()` in any case."""

    def __init__(
        self, layout: Layout, membership: Membership, interface: str, waiting: Waiting, *, carries_data: bool
    ) -> None:
        """Listen.

        Args:
            layout: The world's, of several hosts.
            membership: Membership of this rank.
            interface: This host's address towards rank 0.
            waiting: Way to wait for other ranks.
            carries_data: Whether there are data sockets.

        Raises:
            ConfigError: If the interface cannot be listened on.
        """
        self._layout = layout
        self._membership = membership
        self._waiting = waiting
        self._sockets: dict[Line, int] = {}
        self._tls: dict[int, Session] = {}  # by descriptor
        self._calls = _calls(layout, carries_data=carries_data)
        self._expects = _expected(layout, carries_data=carries_data)
        self._carries_data = carries_data
        listener = listen(Address("tcp", interface))
        self.address = bound_address(listener)
        self._acceptor = acceptor_of_members(waiting.loop, listener, membership, (CONTROL, DATA), self._admit)

    def connect(self, addresses: Sequence[Address]) -> None:
        """Make every connection.

        Args:
            addresses: Addresses at which the ranks listen.

        Raises:
            ConfigError: If a connection is not what it should be.
            CollectiveTimeout: If a rank did not connect in time.
            PeerLostError: If one ended meanwhile.
            Interrupted: If rank 0 has news.
        """
        for purpose, peer in self._calls:
            to = Destination(addresses[peer], peer, purpose)
            channel = open_channel(to, self._membership, {}, self._waiting.deadline, self._waiting.interrupt)
            self._take(channel, (purpose, peer))
        self._waiting.until(lambda: self._expects <= self._sockets.keys(), self._describe_missing)

    def take_sockets(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Hand the control and the data sockets to the caller, who closes them: one entry per rank, -1 for none."""
        taken, self._sockets = self._sockets, {}
        control, data = (
            tuple(taken.get((purpose, rank), NO_SOCKET) for rank in range(self._layout.world_size))
            for purpose in (CONTROL, DATA)
        )
        return control, data if self._carries_data else ()

    def take_tls(self) -> dict[int, "Session"]:
        """Hand the TLS sessions of these sockets to the caller, by descriptor."""
        taken, self._tls = self._tls, {}
        return taken

    def close(self) -> None:
        """Close every socket that nobody took; idempotent."""
        self._acceptor.close()
        close_descriptors(self._sockets.values())
        self._sockets.clear()

    def _admit(self, caller: Caller) -> None:
        line = (caller.purpose, caller.rank)
        if line not in self._expects:
            caller.channel.close()
            return
        previous = self._sockets.pop(line, NO_SOCKET)
        if previous != NO_SOCKET:  # a rank that lost its connection calls again
            self._tls.pop(previous, None)
            os.close(previous)
        self._take(caller.channel, line)

    def _take(self, channel: Channel, line: Line) -> None:
        descriptor = channel.detach()
        self._sockets[line] = descriptor
        if channel.tls is not None:
            self._tls[descriptor] = channel.tls

    def _describe_missing(self) -> str:
        missing = sorted({peer for _, peer in self._expects - self._sockets.keys()})
        return (
            f"ranks {missing} did not connect to rank {self._layout.rank} at {self.address} within "
            f"{self._waiting.deadline.limit_s:.0f} s; check that no firewall stands between their hosts, or raise "
            "RINGTUNE_TIMEOUT_S"
        )


def _calls(layout: Layout, *, carries_data: bool) -> list[Line]:
    """Return which connections a rank makes: to rank 0, if that is on another host, and to all lower ranks."""
    control = [] if layout.host == layout.hosts[0] else [(CONTROL, 0)]
    return control + [(DATA, lower) for lower in range(layout.rank) if carries_data]


def _expected(layout: Layout, *, carries_data: bool) -> set[Line]:
    """Return which connections are made to a rank."""
    higher = range(layout.rank + 1, layout.world_size)
    control = {(CONTROL, rank) for rank in higher if layout.rank == 0 and layout.hosts[rank] != layout.host}
    return control | {(DATA, rank) for rank in higher if carries_data}
