# SPDX-License-Identifier: Apache-2.0
"""Paths between two hosts that share several networks: which of them lead anywhere, and in which order to use them.

Names and declared speeds of interfaces say little: a container bridge, a cable that is not plugged in, a 1 Gbit/s card
beside a faster one. So a rank calls every address of the other host that lies on a network of its own, all at once, and
times a message by each that answers.
"""

import errno
import ipaddress
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError
from ringtune.system.event_loop import EventLoop

from .address import Address
from .channel import Channel, ChannelError, Deadline
from .connector import Destination, open_channel
from .interfaces import own_networks
from .proof import Membership
from .waiting import Waiting

PROBE = "probe"
MAX_NETWORKS = 8  # networks of a host that carry data, at most: a host of many containers has a bridge for each
CONNECT_LIMIT_S = 0.3  # time in which all paths must answer a call; the way of the meeting is not bound to it
PROBE_LIMIT_S = 2.0  # time for a proof and the probe's messages on a path that has answered
PROBE_CHARACTERS = 1_000_000  # 8 ms at 1 Gbit/s: more than a shaper's bucket holds, and than Python takes for a message
PROBE_MESSAGES = 2  # the quicker counts, for a busy machine delays any of them
CLEARLY_FASTER = 1.5  # ratio of times from which another path takes the place of the meeting's, which is the default


def networks_of(interface: str, names: Sequence[str] = ()) -> list[str]:
    """Return this host's networks that may carry data, as `ADDRESS/PREFIX`, that of the meeting first.

    Args:
        interface: This host's address towards rank 0.
        names: Interfaces that may carry data; empty for all. A host that has none of them has the meeting's way alone.
    """
    own = own_networks(names)
    first = [network for network in own if network.partition("/")[0] == interface]
    if not own or not (first or names):  # met by loopback, IPv6 or an address of another namespace
        return [interface]
    return [*first, *(network for network in own if network not in first)][:MAX_NETWORKS]


def shared_addresses(own: Sequence[str], addresses: Sequence[Address]) -> list[Address]:
    """Return a peer's addresses that lie on a network of this host's.

    An address that this host has as well, as container bridges do, is not a way between the two.

    Args:
        own: This host's networks, as `networks_of` gives them.
        addresses: The peer's.
    """
    networks = [ipaddress.ip_interface(network) for network in own]
    own_addresses = {interface.ip for interface in networks}

    def is_shared(address: Address) -> bool:
        ip = ipaddress.ip_address(address.host)
        return ip not in own_addresses and any(ip in interface.network for interface in networks)

    return [address for address in addresses if is_shared(address)]


def reachable(addresses: Sequence[Address], limit_s: float = CONNECT_LIMIT_S) -> set[Address]:
    """Return the addresses that answer a call within the limit, seconds; all are called at once."""
    found: set[Address] = set()
    deadline = Deadline.after(limit_s)
    with selectors.DefaultSelector() as selector, ExitStack() as stack:
        for address in addresses:
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC | socket.SOCK_NONBLOCK)
            stack.callback(connection.close)
            if connection.connect_ex((address.host, address.port)) in {0, errno.EINPROGRESS}:
                selector.register(connection, selectors.EVENT_WRITE, (address, connection))
        while selector.get_map() and not deadline.has_passed():
            for key, _ in selector.select(deadline.remaining_s()):
                address, connection = key.data
                selector.unregister(connection)
                if connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0:
                    found.add(address)
    return found


def ordered(
    peer: int, met: Address | None, others: Sequence[Address], membership: Membership, waiting: Waiting
) -> list[Address]:
    """Return the addresses of a peer that carry data, the best path's first.

    The way of the meeting stays the first unless another one is clearly faster.

    Args:
        peer: The rank that listens there.
        met: Its address on the way of the meeting; None if that may not carry data.
        others: Its other addresses, which have answered a call.
        membership: Membership of this rank.
        waiting: Way to wait for the peer.

    Raises:
        ConfigError: If no address is left, or as for `open_channel`.
        CollectiveTimeout, PeerLostError, Interrupted: As for `open_channel`, by the first address.
    """
    addresses = [*([] if met is None else [met]), *others]
    if not addresses:
        raise ConfigError(
            f"no interface of RINGTUNE_INTERFACES leads to rank {peer}; name one that does, or leave it out"
        )
    if len(addresses) == 1:
        return addresses
    first, *rest = addresses
    times = {first: _probe(Destination(first, peer, PROBE), membership, waiting, waiting.deadline)}
    for address in rest:
        with suppress(CollectiveTimeout, PeerLostError, ConfigError):  # it leads nowhere, or to another process
            to = Destination(address, peer, PROBE)
            times[address] = _probe(to, membership, waiting, Deadline.after(PROBE_LIMIT_S))
    return sorted(times, key=lambda address: times[address] / (CLEARLY_FASTER if address == met else 1.0))


def serve_probe(channel: Channel, loop: EventLoop) -> None:
    """Answer a caller's messages until it closes the connection."""

    def hear() -> None:
        try:
            channel.pump()
            while channel.next_message() is not None:
                channel.send({"type": "taken"})
        except ChannelError:
            loop.forget(channel)
            channel.close()

    loop.on_readable(channel, hear)


def _probe(to: Destination, membership: Membership, waiting: Waiting, deadline: Deadline) -> float:
    """Return the seconds that a message and its answer take by a path, the quickest of several.

    Raises:
        PeerLostError: If the path carries a connection, but not the message.
        ConfigError, CollectiveTimeout, Interrupted: As for `open_channel`.
    """
    channel = open_channel(to, membership, {}, deadline, waiting.interrupt)
    times = []
    try:
        for _ in range(PROBE_MESSAGES):
            start_s = time.monotonic()
            channel.send({"type": "load", "padding": "0" * PROBE_CHARACTERS})
            channel.receive(Deadline.after(PROBE_LIMIT_S), waiting.interrupt)
            times.append(time.monotonic() - start_s)
    except (ChannelError, TimeoutError) as error:
        raise PeerLostError(f"no message came to {to.whom} by {to.address}: {error}") from error
    finally:
        channel.close()
    return min(times)
