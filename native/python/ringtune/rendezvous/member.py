# SPDX-License-Identifier: Apache-2.0
"""Every other rank's side of the meeting."""

import os
import socket
import time

from ringtune.errors import CollectiveTimeout, ConfigError, PeerLostError, RingtuneError

from .channel import Channel, ChannelError, Deadline, Message
from .conflicts import describe_failure, failure_from, join_message
from .place import Agreement, Offer, Place, host_identity
from .proof import PROTOCOL_VERSION, Transcript, is_nonce, new_nonce

RETRY_S = 0.02  # rank 0's socket has no event to wait for before it exists
TELL_LIMIT_S = 10.0  # how long a rank that cannot start tries to say so


class Member:
    """The meeting as a rank other than 0 sees it: `agree()`, then `conclude()`, then `close()`. Not thread-safe."""

    def __init__(self, place: Place, offer: Offer, limit_s: float) -> None:
        self._place = place
        self._offer = offer
        self._deadline = Deadline.after(limit_s if offer.failure is None else min(limit_s, TELL_LIMIT_S))
        self._host = host_identity()
        self._channel: Channel | None = None

    def agree(self) -> Agreement:
        """Join rank 0 and take this rank's share.

        Raises:
            ConfigError: If ranks disagree, one of them cannot start, or rank 0 does not hold the job key.
            CollectiveTimeout: If rank 0 did not answer by the deadline.
            PeerLostError: If rank 0 ended meanwhile.
        """
        try:
            self._channel = self._connect()
            self._introduce(self._channel)
            welcome = self._receive(self._channel)
        except RingtuneError:
            if self._offer.failure is not None:
                raise self._offer.failure from None
            raise
        return self._agreement_from(self._channel, welcome)

    def conclude(self, failure: RingtuneError | None) -> None:
        """Say that this rank's engine has started, or why not, and wait until all have.

        Raises:
            RingtuneError: The first failure of any rank.
        """
        if self._channel is None:
            raise PeerLostError("the meeting was left before it was concluded")
        described = {"type": "ready"} if failure is None else {"type": "failed", **describe_failure(failure)}
        self._send(self._channel, described)
        if failure is not None:
            raise failure
        self._receive(self._channel)

    def close(self) -> None:
        """Close the socket; idempotent."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None

    def _connect(self) -> Channel:
        while True:
            connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            try:
                connection.connect(f"\0{self._place.address}")
                break
            except OSError as error:
                connection.close()
                if self._deadline.has_passed():
                    raise CollectiveTimeout(self._late(f"nobody listens on @{self._place.address}: {error}")) from error
                time.sleep(RETRY_S)
        channel = Channel(connection)
        if channel.peer()[1] != os.getuid():
            channel.close()
            raise ConfigError(f"@{self._place.address} belongs to another user; choose another RINGTUNE_RENDEZVOUS")
        return channel

    def _introduce(self, channel: Channel) -> None:
        nonce = new_nonce()
        hello = {"type": "hello", "protocol": PROTOCOL_VERSION, "rank": self._place.rank, "nonce": nonce}
        self._send(channel, hello)
        challenge = self._receive(channel)
        if not is_nonce(challenge.get("nonce")):
            raise ConfigError(
                "rank 0 answered with a malformed challenge; install one version of ringtune for all ranks"
            )
        transcript = Transcript(self._place.rank, self._place.generation, nonce, challenge["nonce"])
        if not transcript.is_proof(self._place.job_key, "coordinator", challenge.get("proof")):
            raise ConfigError(
                f"rank {self._place.rank} and the process that listens on @{self._place.address} hold different job "
                "keys, or have called init() a different number of times; give all ranks one RINGTUNE_JOB_KEY"
            )
        proof = transcript.proof(self._place.job_key, "member")
        self._send(channel, join_message(self._place, self._offer, self._host, proof))

    def _agreement_from(self, channel: Channel, welcome: Message) -> Agreement:
        descriptors = channel.take_descriptors()
        given, pids = welcome.get("given"), welcome.get("pids")
        if not isinstance(given, dict) or not isinstance(pids, list) or len(descriptors) != len(pids) + 1:
            for descriptor in descriptors:
                os.close(descriptor)
            raise ConfigError(
                f"rank 0 sent {len(descriptors)} descriptors for {self._place.world_size} ranks; is the limit of open "
                "files (ulimit -n) too low?"
            )
        return Agreement(given, descriptors[0], tuple(descriptors[1:]), tuple(int(pid) for pid in pids))

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
            raise CollectiveTimeout(self._late("rank 0 waits for other ranks")) from error
        if message["type"] == "abort":
            raise failure_from(message)
        return message

    def _late(self, why: str) -> str:
        return (
            f"rank {self._place.rank} of {self._place.world_size} could not meet rank 0 within "
            f"{self._deadline.limit_s:.0f} s ({why}); check that all ranks were started, on one host, or raise "
            "RINGTUNE_TIMEOUT_S"
        )
