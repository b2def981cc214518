# SPDX-License-Identifier: Apache-2.0
"""Every other rank's side of the meeting."""

from collections.abc import Callable

from ringtune.errors import CollectiveTimeout, PeerLostError, RingtuneError
from ringtune.system.event_loop import EventLoop

from .address import LOOPBACK
from .arrival import Arrival
from .channel import Channel, ChannelError, Deadline, Interrupted, Message
from .conflicts import describe_failure, failure_from, join_message
from .connector import Destination, open_channel
from .host_group import NoSharedMemory
from .interfaces import link_bits_per_s
from .place import Agreement, Offer, Place, host_identity
from .plan import MeetingPlan, malformed, mesh_addresses
from .proof import MEETING_PURPOSE
from .waiting import Waiting

TELL_LIMIT_S = 10.0  # time for which a rank that cannot start tries to report it
PATIENCE_S = 2.0  # extra wait of other ranks, so that rank 0 is the one that names the missing ranks


class Member:
    """The meeting as a rank other than 0 sees it: `agree()`, then `conclude()`, then `close()`. Not thread-safe."""

    def __init__(self, place: Place, offer: Offer, limit_s: float, create_segment: Callable[[int], int]) -> None:
        self._place = place
        self._offer = offer
        self._deadline = Deadline.after(limit_s if offer.failure is None else min(limit_s, TELL_LIMIT_S))
        self._create_segment = create_segment
        self._host = host_identity()
        self._loop = EventLoop()
        self._channel: Channel | None = None
        self._arrival: Arrival | None = None

    def agree(self) -> Agreement:
        """Join rank 0 and take this rank's share.

        Raises:
            ConfigError: If ranks disagree, one of them cannot start, or rank 0 does not hold the job key.
            CollectiveTimeout: If a rank did not answer by the deadline.
            PeerLostError: If a rank ended meanwhile.
        """
        to = Destination(self._place.require_address(), 0, MEETING_PURPOSE)
        join = join_message(self._place, self._offer, self._host)
        try:
            self._channel = self._meet(to, join)
            self._deadline = Deadline.after(self._deadline.limit_s + PATIENCE_S)
            self._loop.on_readable(self._channel, _leave_for_later)
            return self._follow(self._channel)
        except RingtuneError:
            if self._offer.failure is not None:
                raise self._offer.failure from None
            raise

    def conclude(self, failure: RingtuneError | None) -> None:
        """Report that this rank's engine has started, or its failure, and wait until all have started.

        Raises:
            RingtuneError: The first failure of any rank.
        """
        channel = self._channel
        if channel is None:
            raise PeerLostError("the meeting was left before it was concluded")
        if failure is not None:
            self._send(channel, {"type": "failed", **describe_failure(failure)})
            raise failure
        self._tell(channel, {"type": "ready"})
        self._receive(channel)

    def close(self) -> None:
        """Close every socket; idempotent."""
        if self._arrival is not None:
            self._arrival.close()
            self._arrival = None
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._loop.close()

    def _meet(self, to: Destination, join: Message) -> Channel:
        """Return the connection to rank 0; the end of another rank that is heard of before ends the attempt."""
        try:
            return open_channel(to, self._place.membership, join, self._deadline, watch=self._place.watch)
        except Interrupted:
            if self._place.watch is not None:
                self._place.watch.check()
            raise

    def _follow(self, channel: Channel) -> Agreement:
        """Take part in each of rank 0's plans, and then connect to the other ranks."""
        message = self._receive(channel)
        while message["type"] == "plan":
            self._take_part(channel, MeetingPlan.from_message(message, self._place.rank))
            message = self._receive(channel)
        if self._arrival is None:
            raise malformed("answer", ValueError(message["type"]))
        try:
            self._arrival.connect(mesh_addresses(message))
        except Interrupted:
            pass
        except RingtuneError as error:
            self._tell(channel, {"type": "failed", **describe_failure(error)})
            raise
        else:
            return self._arrival.agreement()
        news = self._receive(channel)  # raises what has happened elsewhere, for there is no other news
        raise malformed("answer", ValueError(news["type"]))

    def _take_part(self, channel: Channel, plan: MeetingPlan) -> None:
        """Take this rank's seat and say so; news of rank 0 end the attempt and go before it."""
        if self._arrival is not None:
            self._arrival.close()
            self._arrival = None
        interface = LOOPBACK if channel.is_local else channel.own_host()
        try:
            self._arrival = Arrival(plan, self._place.membership, interface, self._waiting(channel))
            self._arrival.sit(self._create_segment)
        except Interrupted:
            return
        except NoSharedMemory as error:
            self._send(channel, {"type": "no_memory", "round": plan.round, "text": str(error)})
            return
        except RingtuneError as error:
            self._tell(channel, {"type": "failed", **describe_failure(error)})
            raise
        addresses = [str(address) for address in self._arrival.addresses]
        seated = {"type": "seated", "round": plan.round, "link_bits_per_s": link_bits_per_s(interface)}
        self._send(channel, {**seated, "addresses": addresses})

    def _waiting(self, channel: Channel) -> Waiting:
        def check() -> None:
            if channel.has_news():
                raise Interrupted

        return Waiting(self._loop, self._deadline, check, channel)

    def _tell(self, channel: Channel, message: Message) -> None:
        """Send a message that rank 0 may not read any more: this rank raises a failure anyway, or awaits no answer."""
        try:
            channel.send(message)
        except ChannelError:
            return

    def _send(self, channel: Channel, message: Message) -> None:
        try:
            channel.send(message)
        except ChannelError as error:
            raise PeerLostError(f"rank 0 ended during init: {error}") from error

    def _receive(self, channel: Channel) -> Message:
        """Return the next message; an abort is raised as the error it carries."""
        try:
            message = channel.receive(self._deadline)
        except ChannelError as error:
            raise PeerLostError(
                f"rank 0 ended, or refused rank {self._place.rank} of {self._place.world_size}, during init: {error}; "
                "see rank 0's own error"
            ) from error
        except TimeoutError as error:
            raise CollectiveTimeout(
                f"rank {self._place.rank} of {self._place.world_size} met rank 0, but the meeting was not over within "
                f"{self._deadline.limit_s:.0f} s; check that all ranks were started, or raise RINGTUNE_TIMEOUT_S"
            ) from error
        if message["type"] == "abort":
            raise failure_from(message)
        return message


def _leave_for_later() -> None:
    """Ignore it: a readable socket ends the loop's turn, and no more is needed."""
