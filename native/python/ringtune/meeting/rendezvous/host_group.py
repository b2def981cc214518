# SPDX-License-Identifier: Apache-2.0
"""Shared memory of one host's ranks: the lowest makes the segment and hands it to the others.

They meet on an abstract socket of this host, whose random name rank 0 gave them, and prove the job key again. The
kernel reports the process at the other end, so that the pidfds are those of the ranks that are really here.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError
from ringtune.system.standard_streams import above_standard_streams

from .acceptor import Acceptor
from .address import Address, listen
from .admission import Caller, acceptor_of_members
from .channel import Channel, ChannelError, Message
from .connector import Destination, open_channel
from .layout import Layout
from .place import close_descriptors
from .proof import Membership
from .waiting import Waiting

PURPOSE = "host"
MAX_LOCAL_RANKS = 250  # a descriptor per rank and the segment's travel in one message; the kernel's limit is 253


class NoSharedMemory(Exception):  # noqa: N818  (internal: rank 0 decides whether there is another way)
    """The segment cannot be allocated on this host."""


@dataclass(frozen=True)
class Seat:
    """A rank's share of its host. The receiver owns the descriptors.

    Attributes:
        segment_fd: The shared-memory segment.
        pidfds: One per rank of this host, in their order.
        pids: Likewise, as the kernel reports them.
    """

    segment_fd: int
    pidfds: tuple[int, ...]
    pids: tuple[int, ...]

    def close(self) -> None:
        """Close the descriptors."""
        close_descriptors((self.segment_fd, *self.pidfds))


def take_seat(layout: Layout, membership: Membership, address: Address, waiting: Waiting) -> Seat:
    """Get this rank's share from the lowest rank of its host; arguments and errors as for `HostGroup.hand_out`."""
    head = layout.local_ranks[0]

    def describe_late() -> str:
        return f"rank {head} did not hand out the shared memory within {waiting.deadline.limit_s:.0f} s; check its log"

    channel = open_channel(Destination(address, head, PURPOSE), membership, {}, waiting.deadline, waiting.interrupt)
    try:
        message = channel.receive(waiting.deadline, waiting.interrupt)
        return _seat_from(channel.take_descriptors(), message, layout)
    except ChannelError:  # it has no memory, or has ended: rank 0 is about to say which
        waiting.until(lambda: False, describe_late)
        raise
    except TimeoutError as error:
        raise CollectiveTimeout(describe_late()) from error
    finally:
        channel.close()


def _seat_from(descriptors: list[int], message: Message, layout: Layout) -> Seat:
    pids = message.get("pids")
    if not isinstance(pids, list) or len(descriptors) != len(pids) + 1 or len(pids) != layout.local_size:
        close_descriptors(descriptors)
        raise ConfigError(
            f"rank {layout.local_ranks[0]} sent {len(descriptors)} descriptors for {layout.local_size} ranks; is the "
            "limit of open files (ulimit -n) too low?"
        )
    return Seat(descriptors[0], tuple(descriptors[1:]), tuple(int(pid) for pid in pids))


class HostGroup:
    """The ranks of one host as the lowest of them sees them: `hand_out()`, then `close()`."""

    def __init__(self, layout: Layout, membership: Membership, address: Address, waiting: Waiting) -> None:
        """Listen for the others, where there are any.

        Args:
            layout: The world's.
            membership: Membership of this rank, the lowest of its host.
            address: The abstract socket of this host's ranks.
            waiting: Way to wait for other ranks.

        Raises:
            ConfigError: If there are too many ranks, or the socket cannot be listened on.
        """
        if layout.local_size > MAX_LOCAL_RANKS:
            raise ConfigError(f"{layout.local_size} ranks run on one host; at most {MAX_LOCAL_RANKS} are possible")
        self._layout = layout
        self._waiting = waiting
        self._channels: dict[int, Channel] = {}
        self._acceptor: Acceptor[Caller] | None = None
        if layout.local_size > 1:
            self._acceptor = acceptor_of_members(waiting.loop, listen(address), membership, (PURPOSE,), self._admit)

    def hand_out(self, create_segment: Callable[[int], int]) -> Seat:
        """Make the segment, wait for the others, and give each its share.

        Raises:
            NoSharedMemory: If the segment cannot be allocated.
            CollectiveTimeout: If a rank did not come in time.
            PeerLostError: If one ended meanwhile.
            Interrupted: If rank 0 has news.
        """
        try:
            segment_fd = create_segment(self._layout.local_size)
        except ConfigError as error:
            raise NoSharedMemory(str(error)) from error
        try:
            others = self._layout.local_size - 1
            self._waiting.until(lambda: len(self._channels) == others, self._describe_missing)
            return self._shared(segment_fd)
        except BaseException:
            os.close(segment_fd)
            raise

    def close(self) -> None:
        """Close every socket; idempotent."""
        if self._acceptor is not None:
            self._acceptor.close()
        for channel in self._channels.values():
            channel.close()
        self._channels.clear()

    def _admit(self, caller: Caller) -> None:
        if caller.rank not in self._layout.local_ranks[1:]:
            caller.channel.close()
            return
        previous = self._channels.pop(caller.rank, None)  # a rank that lost its connection calls again
        if previous is not None:
            previous.close()
        self._channels[caller.rank] = caller.channel

    def _describe_missing(self) -> str:
        missing = sorted(set(self._layout.local_ranks[1:]) - set(self._channels))
        return (
            f"ranks {missing} did not fetch the shared memory from rank {self._layout.rank}, on the same host, within "
            f"{self._waiting.deadline.limit_s:.0f} s; check their logs, or raise RINGTUNE_TIMEOUT_S"
        )

    def _shared(self, segment_fd: int) -> Seat:
        ranks = self._layout.local_ranks[1:]
        pids = (os.getpid(), *(self._channels[rank].peer().pid for rank in ranks))
        seat = Seat(segment_fd, _open_pidfds(self._layout.local_ranks, pids), pids)
        try:
            for rank in ranks:
                message = {"type": "seat", "pids": list(pids)}
                self._channels[rank].send(message, (segment_fd, *seat.pidfds))
        except ChannelError as error:
            close_descriptors(seat.pidfds)
            raise PeerLostError(f"rank {rank} ended during init: {error}") from error
        return seat


def _open_pidfds(ranks: tuple[int, ...], pids: tuple[int, ...]) -> tuple[int, ...]:
    opened: list[int] = []
    try:
        opened.extend(above_standard_streams(os.pidfd_open(pid)) for pid in pids)
    except ProcessLookupError as error:
        close_descriptors(opened)
        rank, pid = ranks[len(opened)], pids[len(opened)]
        raise PeerLostError(f"rank {rank} (pid {pid}) ended during init: {error}") from error
    except OSError:
        close_descriptors(opened)
        raise
    return tuple(opened)
