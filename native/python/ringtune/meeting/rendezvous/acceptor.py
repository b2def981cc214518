# SPDX-License-Identifier: Apache-2.0
"""Accepts connections of processes that prove that they hold the job key; drops strangers, which disturb nobody.

The caller sends hello, the acceptor answers with a challenge and its own proof, the caller proves itself and sends its
join message, the acceptor accepts. Until then a connection may hold little memory, has little time, and is the first to
be dropped when there are many: an honest rank that loses its place that way calls again.
"""

import errno
import socket
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ringtune.errors import ConfigError
from ringtune.system.event_loop import EventLoop

from .channel import MAX_FRAME_BYTES, Channel, ChannelError, Deadline, Message
from .proof import JOIN_PURPOSE, NO_RANK, PROTOCOL_VERSION, Membership, Transcript, is_nonce, new_nonce

GREETING_LIMIT_S = 2.0  # a connection that has not proved itself by then is dropped
MAX_UNPROVED = 512  # connections served at once; over that the oldest silent one goes
HELLO_LIMIT_BYTES = 1 << 10
JOIN_LIMIT_BYTES = 256 << 10
SHORTAGE_LIMIT_S = 5.0  # strangers that hold descriptors are gone by then; what is still short is for good
EXPIRY_S = 0.1  # interval between looks for old connections
_ACCEPTS_PER_TURN = 64  # bound of new connections per turn: a flood must not starve admitted ones
_MAX_RANK = 10**6


@dataclass
class PendingConnection:
    """One accepted connection.

    Attributes:
        channel: The connection.
        greeting: When it must have proved itself.
        transcript: Set by its hello.
        is_watched: Whether the loop serves it.
    """

    channel: Channel
    greeting: Deadline
    transcript: Transcript | None = None
    is_watched: bool = False

    @property
    def rank(self) -> int:
        """Rank that the caller claims to be; proved once it was admitted."""
        return -1 if self.transcript is None else self.transcript.caller

    @property
    def purpose(self) -> str:
        """Purpose of the connection."""
        return "" if self.transcript is None else self.transcript.purpose

    @property
    def generation(self) -> int:
        """Number of times that the caller has initialised before."""
        return -1 if self.transcript is None else self.transcript.generation


Admit = Callable[[PendingConnection, Message], None]


class Acceptor:
    """A listening socket and the connections that have not proved themselves. Not thread-safe; owns both.

    Attributes:
        refused: Number of connections that left, or were dropped, before they had proved themselves.
    """

    def __init__(
        self, loop: EventLoop, listener: socket.socket, membership: Membership, purposes: Collection[str], admit: Admit
    ) -> None:
        """Open the acceptor.

        Args:
            loop: Serves it.
            listener: Non-blocking; the acceptor's from now on.
            membership: Membership of this process.
            purposes: Allowed purposes of connections.
            admit: Takes a proved connection over, with the message that it joined with.
        """
        self.refused = 0
        self._loop = loop
        self._listener = listener
        self._membership = membership
        self._purposes = purposes
        self._admit = admit
        self._silent: dict[int, PendingConnection] = {}  # by descriptor, oldest first
        self._greeted: dict[int, PendingConnection] = {}  # likewise; they have said hello
        self._next_expiry_s = 0.0
        self._short_since_s: float | None = None  # when the lack of descriptors began
        loop.on_readable(listener, self._accept)
        loop.add_chore(self._expire)

    @property
    def has_unproved(self) -> bool:
        """True if there are connections that have not proved themselves, and will be dropped."""
        return bool(self._silent or self._greeted)

    def close(self) -> None:
        """Stop listening and drop whoever has not proved itself yet; idempotent."""
        if self._listener.fileno() < 0:
            return
        self._loop.forget(self._listener)
        self._loop.remove_chore(self._expire)
        self._listener.close()
        for pending in [*self._silent.values(), *self._greeted.values()]:
            self._drop(pending)

    def _expire(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_expiry_s:
            return
        self._next_expiry_s = now_s + EXPIRY_S
        for pending in [*self._silent.values(), *self._greeted.values()]:
            if pending.greeting.has_passed():
                self._drop(pending)

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                self._short_since_s = None
                return
            except OSError as error:
                if error.errno not in {errno.EMFILE, errno.ENFILE}:
                    continue  # the peer left before it was accepted
                self._make_room(error)
                return
            self._welcome(connection)

    def _make_room(self, error: OSError) -> None:
        """Give up a connection for its descriptor, or the meeting where that has not helped for a while."""
        now_s = time.monotonic()
        self._short_since_s = now_s if self._short_since_s is None else self._short_since_s
        is_lasting = now_s - self._short_since_s > SHORTAGE_LIMIT_S
        if is_lasting or not (self._silent or self._greeted):
            raise ConfigError(
                f"no connection can be accepted: {error.strerror}; raise the limit of open files (ulimit -n)"
            ) from error
        self._drop_oldest()

    def _drop_oldest(self) -> None:
        queue = self._silent or self._greeted
        self._drop(next(iter(queue.values())))

    def _welcome(self, connection: socket.socket) -> None:
        """Take a connection in; what says garbage at once, as most strangers do, costs no more than reading it."""
        channel = Channel(connection, HELLO_LIMIT_BYTES)
        if channel.is_strangers:
            channel.close()
            return
        pending = PendingConnection(channel, Deadline.after(GREETING_LIMIT_S))
        self._silent[channel.fileno()] = pending
        self._advance(pending)
        if channel.fileno() < 0:
            return
        self._loop.on_readable(channel, lambda: self._advance(pending))
        pending.is_watched = True
        if len(self._silent) + len(self._greeted) > MAX_UNPROVED:
            self._drop_oldest()

    def _advance(self, pending: PendingConnection) -> None:
        try:
            pending.channel.pump()
            message = pending.channel.next_message()
            if message is None:
                return
            if pending.transcript is None:
                self._challenge(pending, message)
                return
            self._check_join(pending.transcript, message)
            pending.channel.set_frame_limit(MAX_FRAME_BYTES)
            pending.channel.send({"type": "accepted"})
        except ChannelError:
            self._drop(pending)
            return
        self._forget(pending)
        self._admit(pending, message)

    def _check_join(self, transcript: Transcript, message: Message) -> None:
        is_join = message["type"] == "join"
        if not is_join or not transcript.is_proof(self._membership.job_key, "caller", message.get("proof")):
            raise ChannelError("no join, or its proof is wrong")

    def _challenge(self, pending: PendingConnection, hello: Message) -> None:
        """Answer a hello with this acceptor's proof; raise `ChannelError` if that is impossible."""
        ours = self._membership
        transcript = self._transcript_from(hello)
        if hello.get("protocol") != PROTOCOL_VERSION or ours.generation not in {None, transcript.generation}:
            generations = {} if ours.generation is None else {"generation": ours.generation}
            pending.channel.send({"type": "elsewhere", "protocol": PROTOCOL_VERSION, **generations})
            raise ChannelError("of another version or generation")
        del self._silent[pending.channel.fileno()]
        self._greeted[pending.channel.fileno()] = pending
        pending.transcript = transcript
        pending.channel.hasten()
        pending.channel.set_frame_limit(JOIN_LIMIT_BYTES)
        proof = transcript.proof(ours.job_key, "callee")
        pending.channel.send({"type": "challenge", "nonce": transcript.callee_nonce, "proof": proof})

    def _transcript_from(self, hello: Message) -> Transcript:
        rank, generation, nonce = hello.get("rank"), hello.get("generation"), hello.get("nonce")
        is_hello = hello["type"] == "hello" and hello.get("purpose") in self._purposes
        has_no_rank = hello.get("purpose") == JOIN_PURPOSE and rank == NO_RANK
        if not is_hello or not (has_no_rank or _is_number(rank)) or not _is_number(generation) or not is_nonce(nonce):
            raise ChannelError("the hello is malformed")
        caller_nonce, callee_nonce = str(nonce), new_nonce()
        return Transcript(
            str(hello["purpose"]),
            int(str(generation)),
            int(str(rank)),
            self._membership.rank,
            caller_nonce,
            callee_nonce,
        )

    def _forget(self, pending: PendingConnection) -> None:
        descriptor = pending.channel.fileno()
        if pending.is_watched:
            self._loop.forget(pending.channel)
            pending.is_watched = False
        self._silent.pop(descriptor, None)
        self._greeted.pop(descriptor, None)

    def _drop(self, pending: PendingConnection) -> None:
        if pending.channel.fileno() < 0:
            return
        self.refused += 1
        self._forget(pending)
        pending.channel.close()


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_RANK
