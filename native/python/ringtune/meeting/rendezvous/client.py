# SPDX-License-Identifier: Apache-2.0
"""A worker's side of the rendezvous server: one connection for the life of the process, and a place at each meeting."""

import math
import os
import socket
from contextlib import suppress
from types import TracebackType

from ringtune.errors import CollectiveTimeout, PeerLostError, RendezvousError

from .address import Address, bound_address, listen
from .channel import Channel, ChannelError, Deadline, Message, encode_frame
from .conflicts import failure_from
from .connector import Destination, open_channel
from .place import Place
from .progress import Progress
from .proof import JOIN_PURPOSE, NO_RANK, Membership, derived_key
from .site import Site, meeting_place, own_site
from .tls import CLEAR, Session, Tls

SOURCE = "join"
RETURN_LIMIT_S = 30.0  # for a server that has ended while it was needed to be started again
DONE_LIMIT_S = 5.0  # for the server to take note that the work is done
EXIT_CODES = 256
_LOOK_S = 3600.0  # the server decides how long a worker waits; its end is seen at once


class RendezvousClient:
    """One worker of a job. Used from one thread; a forked child cannot use it.

    Attributes:
        server: Address of the server.
        is_unfinished: Whether the end of this process, even a normal one, is a loss to the job. Set by the code that
            knows when the work is done.
        patience_s: Time that other workers have, seconds, to ask for the next meeting too, if that is shorter than the
            server's; infinity after a meeting.
        progress: Place of the training, for the launcher; None where none is known.
        failure: Error that ends this process, for the launcher; empty while there is none.
    """

    def __init__(self, server: Address, job_key: bytes, worker_id: str = "", tls: Tls = CLEAR) -> None:
        """Make the client; connects to no server yet.

        Args:
            server: Address of the server, `join://HOST:PORT`.
            job_key: Secret of the job.
            worker_id: Name that the launcher knows this worker by; empty for none.
            tls: Protection of the connection.
        """
        self.server = server
        self.is_unfinished = False
        self.patience_s = math.inf
        self.progress: Progress | None = None
        self.failure = ""
        self._job_key = job_key
        self._tls = tls
        self._worker_id = worker_id
        self._channel: Channel | None = None
        self._has_ended = False  # the connection, by the server
        self._first_meeting: int | None = None
        self._meeting: int | None = None
        self._rank: int | None = None
        self._has_update = False
        self._losses: dict[int, str] = {}

    def __enter__(self) -> "RendezvousClient":  # noqa: PYI034  (typing has Self from Python 3.11 on)
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    @property
    def latest(self) -> tuple[int, int] | None:
        """Number of the latest meeting and this worker's rank there; None before the first."""
        return None if self._meeting is None or self._rank is None else (self._meeting, self._rank)

    def is_for(self, server: Address, job_key: bytes) -> bool:
        """Return whether this client belongs to a server and a job."""
        return (server, job_key) == (self.server, self._job_key)

    def next_place(self, limit_s: float) -> Place:
        """Wait for the next meeting and return this worker's place in it.

        The server decides how long it waits for other workers.

        Args:
            limit_s: Time limit of the connection to the server, seconds.

        Raises:
            DismissedError: If the launcher has taken this worker out of the job, or the job has ended without it.
            RendezvousError: If the server refuses this worker, found too few workers in time, or cannot be reached.
            ConfigError: If the server holds another job key, or this worker cannot listen as rank 0.
        """
        deadline = Deadline.after(limit_s)
        while True:
            channel = self._connected(deadline)
            try:
                patience_s = None if math.isinf(self.patience_s) else self.patience_s
                channel.send({"type": "next", "patience_s": patience_s, **self._words()})
                place = None
                while place is None:  # a meeting may fall through
                    place = self._placed(channel, self._next_of(channel, "place"))
            except ChannelError:
                self.close()
                deadline = Deadline.after(min(limit_s, RETURN_LIMIT_S))
            except BaseException:
                self.close()
                raise
            else:
                return place

    def has_update(self) -> bool:
        """Return whether the server has announced, since the last meeting, that the job changes; does not wait."""
        self._take_in()
        return self._has_update

    def done(self) -> None:
        """Report that this worker's work is done, and close the connection."""
        if self._channel is not None:
            with suppress(ChannelError, TimeoutError):  # the server closes the connection, or has ended
                self._channel.send({"type": "done"})
                deadline = Deadline.after(DONE_LIMIT_S)
                while True:  # a connection that is closed before all was read is reset, and the word may be lost
                    self._channel.receive(deadline)
        self.close()

    def detach(self) -> "tuple[int, list[bytes], Session | None] | None":
        """Hand over the connection, by which the end of this process reports its exit code.

        Returns:
            The socket, the message for each exit code, and the socket's TLS session; None if there is no connection.
        """
        channel, self._channel = self._channel, None
        if channel is None:
            return None
        words = self._words()
        failures = [encode_frame({"type": "exited", "code": code, **words}) for code in range(EXIT_CODES)]
        done = failures[0] if self.is_unfinished else encode_frame({"type": "done"})
        return channel.detach(), [done, *failures[1:]], channel.tls

    def close(self) -> None:
        """Close the connection, which is a loss to the job unless `done` came before; idempotent."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        self._has_ended = False

    def _words(self) -> dict[str, object]:
        """Return the fields of a message that describe the training."""
        return {} if self.progress is None else {"progress": self.progress.to_message(), "failure": self.failure}

    # --- the meeting that begins

    def loss_in(self, meeting: int) -> str | None:
        """Return how a worker of a meeting has ended, a sentence, or None; for `MeetingWatch`."""
        self._take_in()
        if self._has_ended and meeting not in self._losses:
            self._losses[meeting] = f"the rendezvous server at {self.server} ended during init"
        return self._losses.get(meeting)

    def fileno(self) -> int:
        """Return the connection's descriptor; -1 where none was made."""
        return -1 if self._channel is None else self._channel.fileno()

    def _connected(self, deadline: Deadline) -> Channel:
        """Return the connection to the server, made anew where it has ended."""
        self._take_in()
        if self._has_ended:
            self.close()
        if self._channel is not None:
            return self._channel
        to = Destination(Address("tcp", self.server.host, self.server.port), NO_RANK, JOIN_PURPOSE)
        join = {
            "site": own_site().to_text(),
            "host_name": socket.gethostname(),
            "pid": os.getpid(),
            "worker_id": self._worker_id,
            "first_meeting": self._first_meeting,
            "meeting": self._meeting,
            "rank": self._rank,
        }
        try:
            self._channel = open_channel(to, Membership(NO_RANK, 0, self._job_key, self._tls), join, deadline)
        except (CollectiveTimeout, PeerLostError) as error:
            raise RendezvousError(f"no place in the job: {error}") from error
        self._channel.notice_silence()
        return self._channel

    def _placed(self, channel: Channel, message: Message) -> Place | None:
        """Return the place that a message gives, once rank 0 listens; None if the meeting has fallen through."""
        number, rank, size = int(message["number"]), int(message["rank"]), int(message["size"])
        listener: socket.socket | None = None
        try:
            if rank == 0 and size > 1:
                sites = [Site.from_text(site) for site in message["sites"]]
                listener = listen(meeting_place(sites, channel.own_host()))
                channel.send({"type": "listening", "number": number, "address": str(bound_address(listener))})
            answer = self._next_of(channel, "address", "again")
            if answer["type"] == "again":
                return None
            self._first_meeting = number if self._first_meeting is None else self._first_meeting
            self._meeting, self._rank = number, rank
            self._has_update = False
            self.patience_s = math.inf
            self._losses.clear()
            if size == 1:
                return Place(0, 1, 0, SOURCE)
            place = Place(
                rank,
                size,
                0,
                SOURCE,
                address=Address.parse(answer["address"]),
                job_key=derived_key(self._job_key, f"meeting\n{number}\n{message['nonce']}"),
                listener=listener,
                watch=MeetingWatch(self, number),
            )
            listener = None
            return place
        finally:
            if listener is not None:
                listener.close()

    def _next_of(self, channel: Channel, *kinds: str) -> Message:
        """Return the next message of some kinds; one that ends the wait is raised as the error it carries."""
        while True:
            try:
                message = channel.receive(Deadline.after(_LOOK_S))
            except TimeoutError:
                continue
            if message["type"] == "failed":
                raise failure_from(message)
            if message["type"] in kinds:
                return message

    def _take_in(self) -> None:
        """Take note of the server's messages so far, or that it has ended; the descriptor stays."""
        channel = self._channel
        while channel is not None and not self._has_ended and channel.has_news():
            try:
                channel.pump()
            except ChannelError:
                self._has_ended = True
                return
            message = channel.next_message()
            if message is not None and message["type"] == "update":
                self._has_update = True
            elif message is not None and message["type"] == "lost":
                self._losses[int(message["number"])] = str(message["text"])


class MeetingWatch:
    """News, for a rank that is about to meet the others, that one of them has ended before it could be missed."""

    def __init__(self, client: RendezvousClient, meeting: int) -> None:
        self._client = client
        self._meeting = meeting

    def fileno(self) -> int:
        """Return the descriptor that can be read when there may be news."""
        return self._client.fileno()

    def has_news(self) -> bool:
        """Return whether one has ended."""
        return self._client.loss_in(self._meeting) is not None

    def check(self) -> None:
        """Raise `PeerLostError` if one has ended."""
        loss = self._client.loss_in(self._meeting)
        if loss is not None:
            raise PeerLostError(loss)
