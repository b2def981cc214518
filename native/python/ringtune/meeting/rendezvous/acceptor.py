# SPDX-License-Identifier: Apache-2.0
"""Accepts connections that prove themselves, in whichever way, and drops strangers without harm to the others.

Until it has proved itself a connection may hold little memory, has little time, and is the first to be dropped when
there are many: an honest rank that loses its place that way calls again. Processes of other users of this host are
dropped at once; see `peer_process`.
"""

import errno
import math
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from ringtune.errors import ConfigError
from ringtune.system.event_loop import EventLoop

from .channel import Channel, ChannelError, Deadline, Message

MAX_UNPROVED = 512  # connections served at once; over that the oldest silent one goes
SHORTAGE_LIMIT_S = 5.0  # strangers that hold descriptors are gone by then; what is still short is for good
EXPIRY_S = 0.1  # interval between looks for old connections
NO_DESCRIPTOR = frozenset({errno.EMFILE, errno.ENFILE})
_ACCEPTS_PER_TURN = 64  # bound of new connections per turn: a flood must not starve admitted ones

Proved = TypeVar("Proved")
ProvedOut_co = TypeVar("ProvedOut_co", covariant=True)


class Proof(Protocol[ProvedOut_co]):
    """Proof of one connection, message by message."""

    def hear(self, message: Message) -> ProvedOut_co | None:
        """Take the next message, and answer it.

        Returns:
            The proved caller, which owns the connection from now on; None while more must come.

        Raises:
            ChannelError: If its proof is wrong; the connection is dropped.
        """


@dataclass(frozen=True)
class Terms(Generic[Proved]):
    """Way in which connections prove themselves, and its bounds.

    Attributes:
        proof_of: Returns the proof of a new connection.
        limit_s: Time in which a connection must have proved itself, seconds.
        limit_bytes: Longest first message, bytes.
    """

    proof_of: Callable[[Channel], Proof[Proved]]
    limit_s: float
    limit_bytes: int


@dataclass(frozen=True)
class _Pending(Generic[Proved]):
    """A connection that has not proved itself."""

    channel: Channel
    proof: Proof[Proved]
    deadline: Deadline


class Acceptor(Generic[Proved]):
    """A listening socket and the connections that have not proved themselves. Not thread-safe; owns both.

    Attributes:
        refused: Number of connections that left, or were dropped, before they had proved themselves.
        last_refusal: Reason of the last one, in words.
    """

    def __init__(
        self, loop: EventLoop, listener: socket.socket, terms: Terms[Proved], admit: Callable[[Proved], None]
    ) -> None:
        """Open the acceptor.

        Args:
            loop: Serves it.
            listener: Non-blocking; the acceptor's from now on.
            terms: Way in which connections prove themselves.
            admit: Takes a proved connection over.
        """
        self.refused = 0
        self.last_refusal = ""
        self._loop = loop
        self._listener = listener
        self._terms = terms
        self._admit = admit
        self._silent: dict[int, _Pending[Proved]] = {}  # by descriptor, oldest first
        self._greeted: dict[int, _Pending[Proved]] = {}  # likewise; their first message was answered
        self._next_expiry_s = 0.0
        self._short_since_s: float | None = None  # when the lack of descriptors began
        loop.on_readable(listener, self._accept)
        loop.add_chore(self._expire)

    def next_look_s(self) -> float:
        """Return the seconds until the loop's next turn is due if no socket becomes ready; infinity: never."""
        return EXPIRY_S if self._silent or self._greeted else math.inf

    def close(self) -> None:
        """Stop listening and drop whoever has not proved itself yet; idempotent."""
        if self._listener.fileno() < 0:
            return
        self._loop.forget(self._listener)
        self._loop.remove_chore(self._expire)
        self._listener.close()
        for pending in [*self._silent.values(), *self._greeted.values()]:
            self._drop(pending, "the meeting was over")

    def _expire(self) -> None:
        now_s = time.monotonic()
        if now_s < self._next_expiry_s:
            return
        self._next_expiry_s = now_s + EXPIRY_S
        for pending in [*self._silent.values(), *self._greeted.values()]:
            if pending.deadline.has_passed():
                self._drop(pending, "it proved nothing in time")

    def _accept(self) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                connection, _ = self._listener.accept()
            except BlockingIOError:
                self._short_since_s = None
                return
            except OSError as error:
                if error.errno not in NO_DESCRIPTOR:
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
        self._drop_oldest("the limit of open files is reached")

    def _drop_oldest(self, why: str) -> None:
        queue = self._silent or self._greeted
        self._drop(next(iter(queue.values())), why)

    def _welcome(self, connection: socket.socket) -> None:
        """Take a connection in; a first message of garbage, as most strangers send, costs no more than reading it."""
        channel = Channel(connection, self._terms.limit_bytes)
        pending = _Pending(channel, self._terms.proof_of(channel), Deadline.after(self._terms.limit_s))
        if channel.is_strangers:
            self._drop(pending, "another user's")
            return
        self._silent[channel.fileno()] = pending
        self._advance(pending)
        if channel.fileno() in {*self._silent, *self._greeted}:
            self._loop.on_readable(channel, lambda: self._advance(pending))
        if len(self._silent) + len(self._greeted) > MAX_UNPROVED:
            self._drop_oldest("too many at once")

    def _advance(self, pending: _Pending[Proved]) -> None:
        descriptor = pending.channel.fileno()
        try:
            pending.channel.pump()
            message = pending.channel.next_message()
            if message is None:
                return
            proved = pending.proof.hear(message)
        except ChannelError as error:
            self._drop(pending, str(error))
            return
        self._silent.pop(descriptor, None)
        if proved is None:
            self._greeted[descriptor] = pending
            return
        self._greeted.pop(descriptor, None)
        self._loop.forget(pending.channel)
        self._admit(proved)

    def _drop(self, pending: _Pending[Proved], why: str) -> None:
        self.refused += 1
        self.last_refusal = why
        self._silent.pop(pending.channel.fileno(), None)
        self._greeted.pop(pending.channel.fileno(), None)
        self._loop.forget(pending.channel)
        pending.channel.close()
