# SPDX-License-Identifier: Apache-2.0
"""Admission of processes that prove that they hold the job key.

The caller sends hello, the acceptor answers with a challenge and its own proof, the caller proves itself and sends its
join message, the acceptor accepts. Where both have TLS on a TCP connection the acceptor's first answer is `secure`: the
same begins anew inside TLS, and the proofs are over that connection's own secret, too. Where the two differ in TLS they
prove themselves in clear text, and a rank that wants to meet rank 0 says why it cannot, and no more.
"""

import socket
from collections.abc import Callable, Collection
from dataclasses import dataclass

from ringtune.system.event_loop import EventLoop

from .acceptor import Acceptor, Terms
from .channel import MAX_FRAME_BYTES, Channel, ChannelError, Message
from .proof import (
    JOIN_PURPOSE,
    MEETING_PURPOSE,
    NO_RANK,
    PROTOCOL_VERSION,
    Membership,
    Transcript,
    is_nonce,
    new_nonce,
)
from .tls import MODES, OFF

GREETING_LIMIT_S = 2.0  # a connection that has not proved itself by then is dropped
HELLO_LIMIT_BYTES = 1 << 10
JOIN_LIMIT_BYTES = 256 << 10
_MAX_RANK = 10**6


@dataclass(frozen=True)
class Caller:
    """A process that has proved that it holds the job key.

    Attributes:
        channel: The connection.
        purpose: Purpose of the connection.
        rank: Rank of the caller, or `NO_RANK`.
        generation: Number of times that the caller has initialised before.
        join: Message that it joined with.
    """

    channel: Channel
    purpose: str
    rank: int
    generation: int
    join: Message


def acceptor_of_members(
    loop: EventLoop,
    listener: socket.socket,
    membership: Membership,
    purposes: Collection[str],
    admit: Callable[[Caller], None],
) -> Acceptor[Caller]:
    """Return an acceptor of processes of a job.

    Args:
        loop: Serves it.
        listener: Non-blocking; the acceptor's from now on.
        membership: Membership of this process.
        purposes: Allowed purposes of connections.
        admit: Takes a proved connection over.
    """
    terms = Terms(lambda channel: _JobKeyProof(channel, membership, purposes), GREETING_LIMIT_S, HELLO_LIMIT_BYTES)
    return Acceptor(loop, listener, terms, admit)


class _JobKeyProof:
    """Implements `Proof` by the job key."""

    def __init__(self, channel: Channel, membership: Membership, purposes: Collection[str]) -> None:
        self._channel = channel
        self._membership = membership
        self._purposes = purposes
        self._transcript: Transcript | None = None

    def hear(self, message: Message) -> Caller | None:
        """See `Proof`."""
        transcript = self._transcript
        if transcript is None:
            self._transcript = self._challenge(message)
            return None
        is_join = message["type"] == "join"
        if not is_join or not (transcript.is_one_tls or transcript.purpose == MEETING_PURPOSE):
            raise ChannelError("no join, or one without the TLS that it needs")
        if not transcript.is_proof(self._membership.job_key, "caller", message.get("proof")):
            raise ChannelError("its proof is wrong")
        self._channel.set_frame_limit(MAX_FRAME_BYTES)
        self._channel.send({"type": "accepted"})
        join = message if transcript.is_one_tls else {"failure": message.get("failure") or {}}
        return Caller(self._channel, transcript.purpose, transcript.caller, transcript.generation, join)

    def _challenge(self, hello: Message) -> Transcript | None:
        """Answer a hello with this process's proof, or with `secure`; raise `ChannelError` if that is impossible."""
        ours = self._membership
        transcript = self._transcript_from(hello)
        if hello.get("protocol") != PROTOCOL_VERSION or ours.generation not in {None, transcript.generation}:
            generations = {} if ours.generation is None else {"generation": ours.generation}
            self._channel.send({"type": "elsewhere", "protocol": PROTOCOL_VERSION, **generations})
            raise ChannelError("of another version or generation")
        self._channel.hasten()
        if transcript.is_one_tls and ours.tls.is_on and not self._channel.is_local and self._channel.tls is None:
            self._channel.send({"type": "secure"})
            self._channel.start_tls(ours.keyring, is_server=True)
            return None
        self._channel.set_frame_limit(JOIN_LIMIT_BYTES)
        proof = transcript.proof(ours.job_key, "callee")
        answer = {"type": "challenge", "nonce": transcript.callee_nonce, "tls": ours.tls.mode, "proof": proof}
        self._channel.send(answer)
        return transcript

    def _transcript_from(self, hello: Message) -> Transcript:
        rank, generation, nonce = hello.get("rank"), hello.get("generation"), hello.get("nonce")
        is_hello = hello["type"] == "hello" and hello.get("purpose") in self._purposes and self._may_have(hello)
        has_no_rank = hello.get("purpose") == JOIN_PURPOSE and rank == NO_RANK
        if not is_hello or not (has_no_rank or _is_number(rank)) or not _is_number(generation) or not is_nonce(nonce):
            raise ChannelError("the hello is malformed")
        return Transcript(
            str(hello["purpose"]),
            int(str(generation)),
            int(str(rank)),
            self._membership.rank,
            str(nonce),
            new_nonce(),
            str(hello.get("tls", OFF)),
            self._membership.tls.mode,
            self._channel.binding,
        )

    def _may_have(self, hello: Message) -> bool:
        """Return whether a caller may name its TLS: any before TLS begins, and inside of it the one that it has."""
        ours = self._membership.tls.mode
        return hello.get("tls", OFF) in (MODES if self._channel.tls is None else (ours,))


def _is_number(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MAX_RANK
