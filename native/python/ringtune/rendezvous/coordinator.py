# SPDX-License-Identifier: Apache-2.0
"""Rank 0's side of the meeting: admit every rank, agree on the settings, hand out the shared memory.

A stranger (another user, a wrong key, garbage) is dropped and does not disturb the meeting. A rank of the job that
cannot start, says something else than rank 0, or ends, stops the job: everybody is told at once, latecomers too.
"""

import errno
import os
import selectors
import socket
from collections.abc import Callable
from dataclasses import dataclass

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError, error_from_name

from .channel import Channel, ChannelError, Deadline, Message
from .conflicts import describe_failure, failure_from, find_conflict, missing_ranks
from .place import Agreement, Offer, Place, host_identity
from .proof import PROTOCOL_VERSION, Transcript, is_nonce, new_nonce

GREETING_LIMIT_S = 2.0  # a connection that has not proved itself by then is dropped
ABORT_LINGER_S = 5.0  # how long latecomers are still told that the meeting failed


@dataclass
class _Guest:
    """One accepted connection; `transcript` is set by its hello, `is_member` by its proof."""

    channel: Channel
    greeting: Deadline
    transcript: Transcript | None = None
    is_member: bool = False

    @property
    def rank(self) -> int:
        return -1 if self.transcript is None else self.transcript.rank


class Coordinator:
    """The meeting as rank 0 sees it: `agree()`, then `conclude()`, then `close()`. Not thread-safe."""

    def __init__(self, place: Place, offer: Offer, limit_s: float, create_segment: Callable[[int], int]) -> None:
        self._place = place
        self._offer = offer
        self._deadline = Deadline.after(limit_s)
        self._create_segment = create_segment
        self._host = host_identity()
        self._selector = selectors.DefaultSelector()
        self._guests: dict[int, _Guest] = {}
        self._members: dict[int, _Guest] = {}
        self._rejected: list[_Guest] = []  # of the job, but not of this world; they have been told
        self._verdict: RingtuneError | None = offer.failure
        self._refused = 0
        self._listener = _listen(place)
        self._selector.register(self._listener, selectors.EVENT_READ)

    def agree(self) -> Agreement:
        """Wait for every rank and give each its share.

        Raises:
            ConfigError: If ranks disagree, or one of them cannot start.
            CollectiveTimeout: If a rank is missing at the deadline.
            PeerLostError: If a rank ended meanwhile.
        """
        while self._verdict is None and len(self._members) < self._place.world_size - 1:
            self._turn(self._deadline)
            if self._deadline.has_passed():
                self._verdict = self._missing_error()
        if self._verdict is None:
            try:
                return self._hand_out()
            except RingtuneError as error:
                self._verdict = error
        self._abort(self._verdict)
        raise self._verdict

    def conclude(self, failure: RingtuneError | None) -> None:
        """Wait until every rank has started its engine, and let all go.

        Args:
            failure: Why rank 0 could not start its engine; the others are told.

        Raises:
            RingtuneError: The first failure of any rank.
        """
        verdict = failure
        for rank, guest in sorted(self._members.items()):
            if verdict is None:
                verdict = self._wait_ready(rank, guest)
        if verdict is not None:
            self._abort(verdict)
            raise verdict
        lost = [rank for rank, guest in self._members.items() if not _could_tell(guest, {"type": "go"})]
        if lost:
            raise PeerLostError(f"rank {lost[0]} ended during init")

    def close(self) -> None:
        """Close every socket of the meeting; idempotent."""
        self._selector.close()
        self._listener.close()
        for guest in (*self._guests.values(), *self._members.values(), *self._rejected):
            guest.channel.close()
        self._guests.clear()
        self._members.clear()

    def _turn(self, deadline: Deadline) -> None:
        """Serve whatever is ready, for at most a moment, and drop strangers who take too long."""
        for key, _ in self._selector.select(min(deadline.remaining_s(), 0.25)):
            if key.fileobj is self._listener:
                self._accept()
            else:
                self._advance(key.data)
        for guest in [guest for guest in self._guests.values() if guest.greeting.has_passed()]:
            self._drop(guest)

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except OSError:  # the peer left before it was accepted
            return
        guest = _Guest(Channel(connection), Deadline.after(GREETING_LIMIT_S))
        if guest.channel.peer()[1] != os.getuid():
            guest.channel.close()
            return
        self._guests[guest.channel.fileno()] = guest
        self._selector.register(guest.channel, selectors.EVENT_READ, guest)

    def _advance(self, guest: _Guest) -> None:
        """Read from a connection and answer; end of file from a member of the world ends the meeting."""
        try:
            guest.channel.pump()
            while (message := guest.channel.next_message()) is not None:
                self._answer(guest, message)
        except ChannelError as error:
            if guest.is_member and self._verdict is None:
                self._verdict = PeerLostError(f"rank {guest.rank} ended during init: {error}")
            self._drop(guest)

    def _answer(self, guest: _Guest, message: Message) -> None:
        if message["type"] == "hello" and guest.transcript is None:
            guest.transcript = self._transcript_from(message)
            challenge = guest.transcript.proof(self._place.job_key, "coordinator")
            nonce = guest.transcript.coordinator_nonce
            guest.channel.send({"type": "challenge", "nonce": nonce, "proof": challenge})
        elif message["type"] == "join" and guest.transcript is not None and not guest.is_member:
            if not guest.transcript.is_proof(self._place.job_key, "member", message.get("proof")):
                raise ChannelError("the proof is wrong")
            self._admit(guest, message)
        else:
            raise ChannelError(f"unexpected message {message['type']!r}")

    def _transcript_from(self, hello: Message) -> Transcript:
        rank, nonce = hello.get("rank"), hello.get("nonce")
        has_form = type(rank) is int and 1 <= rank <= 10**6 and is_nonce(nonce)
        if not has_form or hello.get("protocol") != PROTOCOL_VERSION:
            raise ChannelError("the hello is malformed")
        return Transcript(int(rank or 0), self._place.generation, str(nonce), new_nonce())

    def _admit(self, guest: _Guest, join: Message) -> None:
        """Take an authenticated rank in, or find why the meeting must end; tell it if that is known already."""
        guest.is_member = True
        self._guests.pop(guest.channel.fileno())
        if guest.rank >= self._place.world_size:
            self._rejected.append(guest)
            conflict: RingtuneError | None = ConfigError(
                f"a process joined as rank {guest.rank} but the world size is {self._place.world_size}"
            )
        elif guest.rank in self._members:
            self._rejected.append(guest)
            pids = [self._members[guest.rank].channel.peer()[0], guest.channel.peer()[0]]
            conflict = ConfigError(f"two processes joined as rank {guest.rank} (pids {pids[0]} and {pids[1]})")
        else:
            self._members[guest.rank] = guest
            conflict = find_conflict(self._place, self._offer, self._host, guest.rank, join)
        self._verdict = self._verdict or conflict
        if self._verdict is not None:
            guest.channel.send({"type": "abort", **describe_failure(self._verdict)})

    def _drop(self, guest: _Guest) -> None:
        descriptor = guest.channel.fileno()
        if descriptor < 0:
            return
        self._selector.unregister(guest.channel)
        if self._guests.pop(descriptor, None) is not None:
            self._refused += 1
        guest.channel.close()

    def _hand_out(self) -> Agreement:
        ranks = sorted(self._members)
        pids = (os.getpid(), *(self._members[rank].channel.peer()[0] for rank in ranks))
        agreement = Agreement(self._offer.given, self._create_segment(self._place.world_size), _open_pidfds(pids), pids)
        welcome = {"type": "welcome", "given": dict(agreement.given), "pids": list(pids)}
        try:
            for rank in ranks:
                self._members[rank].channel.send(welcome, (agreement.segment_fd, *agreement.pidfds))
        except ChannelError as error:
            agreement.close()
            raise PeerLostError(f"rank {rank} ended during init: {error}") from error
        return agreement

    def _wait_ready(self, rank: int, guest: _Guest) -> RingtuneError | None:
        try:
            message = guest.channel.receive(self._deadline)
        except ChannelError as error:
            return PeerLostError(f"rank {rank} ended during init: {error}")
        except TimeoutError:
            return CollectiveTimeout(f"rank {rank} did not start its engine within {self._deadline.limit_s:.0f} s")
        if message["type"] == "ready":
            return None
        failure = failure_from(message)
        return error_from_name(type(failure).__name__, f"rank {rank}: {failure}")

    def _abort(self, verdict: RingtuneError) -> None:
        """Tell everybody why; wait a little for ranks that have not come yet, so that they learn it as well."""
        told = {"type": "abort", **describe_failure(verdict)}
        for guest in self._members.values():
            _could_tell(guest, told)
        self._verdict = verdict
        if isinstance(verdict, CollectiveTimeout):
            return
        linger = Deadline.after(ABORT_LINGER_S)
        while len(self._members) < self._place.world_size - 1 and not linger.has_passed():
            self._turn(linger)

    def _missing_error(self) -> CollectiveTimeout:
        missing = missing_ranks(self._place.world_size, self._members)
        refused = f" ({self._refused} connections were refused for a wrong job key)" if self._refused else ""
        return CollectiveTimeout(
            f"ranks {missing} of {self._place.world_size} did not join within {self._deadline.limit_s:.0f} s{refused}; "
            "check their logs and that all ranks run on one host, or raise RINGTUNE_TIMEOUT_S"
        )


def _could_tell(guest: _Guest, message: Message) -> bool:
    """Send a message to a rank that may be gone; return whether it was still there."""
    try:
        guest.channel.send(message)
    except ChannelError:
        return False
    return True


def _listen(place: Place) -> socket.socket:
    """Open the abstract socket: it has no file, and the kernel forgets the name with the last descriptor."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        listener.bind(f"\0{place.address}")
        listener.listen(1024)
    except OSError as error:
        listener.close()
        reason = "another process has it" if error.errno == errno.EADDRINUSE else str(error)
        raise ConfigError(
            f"rank 0 cannot listen on the abstract socket @{place.address}: {reason}; is rank 0 started twice? "
            "Otherwise choose another name in RINGTUNE_RENDEZVOUS"
        ) from error
    listener.setblocking(False)
    return listener


def _open_pidfds(pids: tuple[int, ...]) -> tuple[int, ...]:
    opened: list[int] = []
    try:
        opened.extend(os.pidfd_open(pid) for pid in pids)
    except OSError as error:
        for descriptor in opened:
            os.close(descriptor)
        raise PeerLostError(f"rank {len(opened)} (pid {pids[len(opened)]}) ended during init: {error}") from error
    return tuple(opened)
