# SPDX-License-Identifier: Apache-2.0
"""Exchange of texts between ranks that know where rank 0 listens and share no key: the same user proves itself.

Rank 0 listens at a desk, and every other rank brings it a request with its text and a fresh nonce. Once all are there,
rank 0 answers each with that nonce in the answer. A `Seal` proves a text's author and hides it from other users:
the kernel's word on one host (`KernelSeal`), MUNGE's credentials between hosts (`Munge`). Strangers are dropped.

A request belongs to one meeting, a text that names job, step, restart and number of the `init()`.
"""

import json
import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError, error_from_name
from ringtune.meeting.rendezvous.acceptor import NO_DESCRIPTOR, Acceptor, Terms
from ringtune.meeting.rendezvous.address import Address, connect, listen
from ringtune.meeting.rendezvous.channel import Channel, ChannelError, Deadline, Message
from ringtune.meeting.rendezvous.place import Place
from ringtune.meeting.rendezvous.proof import is_nonce, new_nonce
from ringtune.meeting.rendezvous.waiting import Waiting
from ringtune.system.counts import counted
from ringtune.system.event_loop import EventLoop

from .munge import SealError

REQUEST_LIMIT_S = 5.0  # a connection that has brought no valid request by then is dropped
REQUEST_LIMIT_BYTES = 64 << 10
PATIENCE_S = 2.0  # extra wait of other ranks, so that rank 0 is the one that names the missing ranks
ANSWER_LIMIT_S = 10.0  # a desk that does not note a request for so long is called again
_FIRST_RETRY_S, _LONGEST_RETRY_S = 0.002, 0.2


class Seal(Protocol):
    """Proof of the user who wrote a text. Both calls raise `SealError`."""

    def seal(self, text: str) -> str:
        """Return the text in a form that the same user's processes alone can read."""

    def open(self, sealed: str) -> str:
        """Return the text that this user has sealed."""


class KernelSeal:
    """Implements `Seal` on one host, where the kernel reports the user at the other end of a unix socket."""

    def seal(self, text: str) -> str:
        """See `Seal`."""
        return text

    def open(self, sealed: str) -> str:
        """See `Seal`."""
        return sealed


@dataclass(frozen=True)
class Desk:
    """Meeting point of the ranks of one `init()`.

    Attributes:
        address: Address at which rank 0 listens.
        meeting: Text that distinguishes this meeting from all others of the user.
        seal: Proof of the user.
    """

    address: Address
    meeting: str
    seal: Seal

    def sealed(self, fields: dict[str, Any]) -> str:
        """Return fields of this meeting, sealed."""
        return self.seal.seal(json.dumps({**fields, "meeting": self.meeting}))

    def opened(self, message: Message) -> dict[str, Any]:
        """Return the fields of a message; raise `SealError` unless this user has sealed them for this meeting."""
        try:
            fields = json.loads(self.seal.open(str(message.get("sealed", ""))))
        except (ValueError, RecursionError) as error:
            raise SealError(f"it is not JSON: {error}") from error
        if not isinstance(fields, dict) or fields.get("meeting") != self.meeting:
            raise SealError("it belongs to another job, step or init()")
        return fields


class SealedExchange:
    """Implements `RankChannel` at a desk; `close()` in any case."""

    def __init__(self, place: Place, desk: Desk, limit_s: float) -> None:
        """Take part.

        Args:
            place: Place of this rank.
            desk: Meeting point of the ranks.
            limit_s: Longest wait for the other ranks.
        """
        self._place = place
        self._desk = desk
        self._limit_s = limit_s
        self._host: _Host | None = None
        self._answer = ""

    def gather(self, text: str) -> Sequence[str]:
        """See `RankChannel`.

        Raises:
            ConfigError: If rank 0 cannot listen, or another user listens in its place.
            CollectiveTimeout: If a rank did not come in time.
            PeerLostError: If one ended meanwhile.
        """
        if self._place.rank != 0:
            self._answer = _Guest(self._place, self._desk, self._limit_s).ask(text)
            return ()
        self._host = _Host(self._place, self._desk, self._limit_s)
        return [text, *self._host.gather()]

    def spread(self, text: str) -> str:
        """See `RankChannel`."""
        if self._host is None:
            return self._answer
        self._host.answer({"answer": text})
        return text

    def close(self) -> None:
        """Close every socket; idempotent."""
        if self._host is not None:
            self._host.close()
            self._host = None


@dataclass(frozen=True)
class _Request:
    """A rank's request, and the connection that waits for the answer."""

    channel: Channel
    rank: int
    nonce: str
    text: str


class _SealedRequest:
    """Implements `Proof` by one sealed message."""

    def __init__(self, channel: Channel, desk: Desk, world_size: int) -> None:
        self._channel = channel
        self._desk = desk
        self._world_size = world_size

    def hear(self, message: Message) -> _Request:
        """See `Proof`."""
        try:
            fields = self._desk.opened(message)
        except SealError as error:
            raise ChannelError(str(error)) from error
        rank, nonce, size = fields.get("rank"), fields.get("nonce"), self._world_size
        if type(rank) is not int or not 1 <= rank < size or fields.get("world_size") != size or not is_nonce(nonce):
            raise ChannelError("its rank, world size or nonce is wrong")
        return _Request(self._channel, rank, str(nonce), str(fields.get("text")))


class _Host:
    """Rank 0's side of the desk. Not thread-safe; owns its sockets."""

    def __init__(self, place: Place, desk: Desk, limit_s: float) -> None:
        self._place = place
        self._desk = desk
        self._deadline = Deadline.after(limit_s)
        self._loop = EventLoop()
        self._requests: dict[int, _Request] = {}
        self._failure: RingtuneError | None = None
        terms = Terms(
            lambda channel: _SealedRequest(channel, desk, place.world_size), REQUEST_LIMIT_S, REQUEST_LIMIT_BYTES
        )
        self._acceptor = Acceptor(self._loop, listen(desk.address), terms, self._admit)

    def gather(self) -> list[str]:
        """Return the other ranks' texts in their order, once all are there; a failure is sent to the ranks present."""
        try:
            others = self._place.world_size - 1
            waiting = Waiting(self._loop, self._deadline, self._check)
            waiting.until(lambda: len(self._requests) == others, self._describe_missing)
        except RingtuneError as error:
            self.answer({"failure": type(error).__name__, "text": str(error)})
            raise
        return [self._requests[rank].text for rank in range(1, self._place.world_size)]

    def answer(self, fields: dict[str, Any]) -> None:
        """Give every rank that is there the same answer; a rank that has left needs none."""
        for request in self._requests.values():
            try:
                sealed = self._desk.sealed({**fields, "nonce": request.nonce})
            except SealError as error:
                raise ConfigError(f"rank 0 cannot answer the other ranks: {error}") from error
            with suppress(ChannelError):
                request.channel.send({"type": "answer", "sealed": sealed})

    def close(self) -> None:
        """Close every socket; idempotent."""
        self._acceptor.close()
        for request in self._requests.values():
            request.channel.close()
        self._loop.close()

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    def _describe_missing(self) -> str:
        missing = sorted(set(range(1, self._place.world_size)) - set(self._requests))
        count, last = self._acceptor.refused, self._acceptor.last_refusal
        refused = f" ({counted(count, 'connection')} refused; the last: {last})"
        return (
            f"ranks {missing} of {self._place.world_size} did not come to rank 0 at {self._desk.address} within "
            f"{self._deadline.limit_s:.0f} s{refused if count else ''}; check their logs, that they call "
            "init(), and that their nodes reach this address, or raise RINGTUNE_TIMEOUT_S"
        )

    def _admit(self, request: _Request) -> None:
        if request.rank in self._requests:
            request.channel.close()
            self._failure = self._failure or ConfigError(f"two processes came as rank {request.rank} of one step")
            return
        self._requests[request.rank] = request
        self._loop.on_readable(request.channel, lambda: self._hear(request))
        try:
            request.channel.send({"type": "noted"})
        except ChannelError as error:
            self._lose(request, error)

    def _hear(self, request: _Request) -> None:
        """Notice that a rank which has made its request is gone; any further message of it is ignored."""
        try:
            request.channel.pump()
            if request.channel.next_message() is not None:
                raise ChannelError("a rank said more than its request")  # noqa: TRY301  (one place takes note of it)
        except ChannelError as error:
            self._lose(request, error)

    def _lose(self, request: _Request, error: ChannelError) -> None:
        self._loop.forget(request.channel)
        self._failure = self._failure or PeerLostError(f"rank {request.rank} ended during init: {error}")


class _Again(Exception):  # noqa: N818  (internal: says why the call must be repeated)
    """Rank 0 was not met, for a reason that may pass."""


class _Guest:
    """Another rank's side of the desk."""

    def __init__(self, place: Place, desk: Desk, limit_s: float) -> None:
        self._place = place
        self._desk = desk
        self._deadline = Deadline.after(limit_s + PATIENCE_S)

    def ask(self, text: str) -> str:
        """Bring the request until rank 0 has answered it; errors as for `SealedExchange.gather`."""
        pause_s, why = _FIRST_RETRY_S, ""
        while True:
            try:
                return self._attempt(text)
            except _Again as reason:
                if not (why and self._deadline.has_passed()):  # an attempt that was cut short knows less
                    why = str(reason)
                if self._deadline.has_passed():
                    raise CollectiveTimeout(
                        f"rank {self._place.rank} could not meet rank 0 within {self._deadline.limit_s:.0f} s "
                        f"({why}); check that rank 0 calls init() and that this node reaches "
                        f"{self._desk.address}, or raise RINGTUNE_TIMEOUT_S"
                    ) from reason
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _LONGEST_RETRY_S)

    def _attempt(self, text: str) -> str:
        try:
            connection = connect(self._desk.address, self._soon())
        except OSError as error:
            if error.errno in NO_DESCRIPTOR:
                raise
            raise _Again(f"nobody listens there: {error}") from error
        channel = Channel(connection)
        try:
            return self._talk(channel, text)
        except SealError as error:
            raise ConfigError(
                f"rank {self._place.rank} and the process that listens on {self._desk.address} cannot prove to each "
                f"other that they are the same user's: {error}"
            ) from error
        finally:
            channel.close()

    def _talk(self, channel: Channel, text: str) -> str:
        if channel.is_strangers:
            raise SealError(f"it is user {channel.peer().uid}'s, and this process runs as user {os.geteuid()}")
        nonce, is_noted = new_nonce(), False
        fields = {"rank": self._place.rank, "world_size": self._place.world_size, "nonce": nonce, "text": text}
        try:
            channel.send({"type": "request", "sealed": self._desk.sealed(fields)})
            is_noted = channel.receive(self._soon())["type"] == "noted"
            answer = self._desk.opened(channel.receive(self._deadline))
        except ChannelError as error:
            if is_noted:
                raise PeerLostError(f"rank 0 ended, or gave up, during init: {error}; see its own error") from error
            raise _Again(f"rank 0 dropped the connection: {error}") from error
        except TimeoutError as error:
            raise _Again("rank 0 has not answered") from error
        if answer.get("nonce") != nonce:
            raise SealError("it is the answer to another request")
        if "failure" in answer:
            raise error_from_name(str(answer["failure"]), str(answer.get("text")))
        return str(answer.get("answer"))

    def _soon(self) -> Deadline:
        return Deadline.after(min(self._deadline.remaining_s(), ANSWER_LIMIT_S))
