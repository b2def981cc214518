# SPDX-License-Identifier: Apache-2.0
"""The TCP connections of a world of several hosts: control between rank 0 and other hosts, data between all ranks.

Every rank listens on the interface that leads to rank 0, and on its host's other networks, on ports that the kernel
chooses; the higher rank of a pair calls the lower. Data go by the best path between two hosts (`network_paths`),
further connections of a pair by all paths in turn. Each connection is proved by the job key on both sides. Without TLS
it then carries clear text.
"""

import itertools
import os
from collections.abc import Collection, Sequence

from .acceptor import Acceptor
from .address import Address, bound_address, listen
from .admission import Caller, acceptor_of_members
from .channel import Channel
from .connector import Destination, open_channel
from .layout import Layout
from .network_paths import PROBE, networks_of, ordered, reachable, serve_probe, shared_addresses
from .place import close_descriptors
from .plan import MeetingPlan
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

    def __init__(self, plan: MeetingPlan, membership: Membership, interface: str, waiting: Waiting) -> None:
        """Listen.

        Args:
            plan: Rank 0's, for several hosts.
            membership: Membership of this rank.
            interface: This host's address towards rank 0.
            waiting: Way to wait for other ranks.

        Raises:
            ConfigError: If the interface cannot be listened on.
        """
        self._layout = plan.layout
        self._membership = membership
        self._waiting = waiting
        self._sockets: dict[Line, int] = {}
        self._tls: dict[int, Session] = {}  # by descriptor
        self._connections = [data_purpose(number) for number in range(plan.data_connections)]
        self._calls = _calls(plan.layout, self._connections)
        self._expects = _expected(plan.layout, self._connections)
        self._networks = networks_of(interface, plan.interfaces) if self._connections else [interface]
        self._may_use_meetings_way = self._networks[0].partition("/")[0] == interface
        hosts = dict.fromkeys((interface, *(network.partition("/")[0] for network in self._networks)))
        self._acceptors: list[Acceptor[Caller]] = []
        self.addresses: list[Address] = []
        """Addresses at which this rank listens, the meeting's way first."""
        try:
            for host in hosts:
                self._listen(host)
        except BaseException:
            self.close()
            raise

    def connect(self, addresses: Sequence[Sequence[Address]]) -> None:
        """Make every connection.

        Args:
            addresses: Addresses at which each rank listens, the meeting's way first.

        Raises:
            ConfigError: If a connection is not the expected one.
            CollectiveTimeout: If a rank did not connect in time.
            PeerLostError: If one ended meanwhile.
            Interrupted: If rank 0 has news.
        """
        paths = self._find_paths(addresses)
        for purpose, peer in self._calls:
            to = Destination(_pick(paths.get(peer, addresses[peer]), purpose), peer, purpose)
            channel = open_channel(to, self._membership, {}, self._waiting.deadline, self._waiting.interrupt)
            self._take(channel, (purpose, peer))
        self._waiting.until(lambda: self._expects <= self._sockets.keys(), self._describe_missing)

    def take_sockets(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Hand the control and the data sockets to the caller, which closes them.

        Returns:
            An entry per rank, -1 for none; the data sockets as often as a pair of ranks has connections.
        """
        taken, self._sockets = self._sockets, {}
        control, *data = (
            tuple(taken.get((purpose, rank), NO_SOCKET) for rank in range(self._layout.world_size))
            for purpose in (CONTROL, *self._connections)
        )
        return control, tuple(itertools.chain.from_iterable(data))

    def take_tls(self) -> dict[int, "Session"]:
        """Hand the TLS sessions of these sockets to the caller, by descriptor."""
        taken, self._tls = self._tls, {}
        return taken

    def close(self) -> None:
        """Close every socket that no caller took; idempotent."""
        for acceptor in self._acceptors:
            acceptor.close()
        close_descriptors(self._sockets.values())
        self._sockets.clear()

    def _listen(self, host: str) -> None:
        listener = listen(Address("tcp", host))
        self.addresses.append(bound_address(listener))
        purposes = (CONTROL, PROBE, *self._connections)
        self._acceptors.append(
            acceptor_of_members(self._waiting.loop, listener, self._membership, purposes, self._admit)
        )

    def _find_paths(self, addresses: Sequence[Sequence[Address]]) -> dict[int, list[Address]]:
        """Return the addresses by which each lower rank of another host gets data, the best path's first.

        One rank of each host is asked for all of them: its networks are theirs.
        """
        hosts = self._layout.hosts
        lower = [rank for rank in range(self._layout.rank) if hosts[rank] != self._layout.host and self._connections]
        heads = {hosts[rank]: rank for rank in reversed(lower)}
        others = (shared_addresses(self._networks, addresses[head][1:]) for head in heads.values())
        answering = reachable(list(itertools.chain.from_iterable(others)))
        places = {host: self._best_places(head, addresses[head], answering) for host, head in heads.items()}
        return {rank: [addresses[rank][place] for place in places[hosts[rank]]] for rank in lower}

    def _best_places(self, peer: int, addresses: Sequence[Address], answering: Collection[Address]) -> list[int]:
        """Return the places of a peer's addresses that carry data, the best path's first."""
        met = addresses[0] if self._may_use_meetings_way else None
        others = [address for address in addresses[1:] if address in answering]
        best = ordered(peer, met, others, self._membership, self._waiting)
        return [addresses.index(address) for address in best]

    def _admit(self, caller: Caller) -> None:
        if caller.purpose == PROBE:
            serve_probe(caller.channel, self._waiting.loop)
            return
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
            f"ranks {missing} did not connect to rank {self._layout.rank} at {self.addresses[0]} within "
            f"{self._waiting.deadline.limit_s:.0f} s; check that no firewall stands between their hosts, or raise "
            "RINGTUNE_TIMEOUT_S"
        )


def data_purpose(number: int) -> str:
    """Return the purpose of a pair's data connection: the first, or one that shares long messages with others."""
    return DATA if number == 0 else f"{DATA}.{number}"


def _pick(paths: Sequence[Address], purpose: str) -> Address:
    """Return the path of a connection: the first for control and whole messages, each in turn for those that share."""
    _, _, number = purpose.partition(".")
    return paths[(int(number) - 1) % len(paths)] if number else paths[0]


def _calls(layout: Layout, connections: Sequence[str]) -> list[Line]:
    """Return which connections a rank makes: to rank 0, if that is on another host, and to all lower ranks."""
    control = [] if layout.host == layout.hosts[0] else [(CONTROL, 0)]
    return control + [line for lower in range(layout.rank) for line in _data_lines(layout, lower, connections)]


def _expected(layout: Layout, connections: Sequence[str]) -> set[Line]:
    """Return which connections are made to a rank."""
    higher = range(layout.rank + 1, layout.world_size)
    control = {(CONTROL, rank) for rank in higher if layout.rank == 0 and layout.hosts[rank] != layout.host}
    return control.union(*(_data_lines(layout, rank, connections) for rank in higher))


def _data_lines(layout: Layout, peer: int, connections: Sequence[str]) -> list[Line]:
    """Return the data connections with a peer: ranks of one host need no more than one."""
    return [(purpose, peer) for purpose in (connections[:1] if layout.hosts[peer] == layout.host else connections)]
