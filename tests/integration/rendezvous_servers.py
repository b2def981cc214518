# SPDX-License-Identifier: Apache-2.0
"""A rendezvous server in a thread of the test's process, and workers that speak only a part of the protocol."""

import select
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

from ringtune.meeting.rendezvous.address import Address
from ringtune.meeting.rendezvous.channel import Channel, Deadline, Message
from ringtune.meeting.rendezvous.connector import Destination, open_channel
from ringtune.meeting.rendezvous.proof import JOIN_PURPOSE, NO_RANK, Membership
from ringtune.meeting.rendezvous.roster import Roster, Worker
from ringtune.meeting.rendezvous.server import Patience, RendezvousServer
from ringtune.meeting.rendezvous.site import own_site
from tests.integration.jobs import DEADLINE_S
from tests.integration.worlds import KEY

PATIENT = Patience(DEADLINE_S, DEADLINE_S)
_LONGEST_TURN_S = 0.05


class Served:
    """A server that a thread serves; its calls are made in that thread.

    Attributes:
        address: Address for `RINGTUNE_RENDEZVOUS`.
    """

    def __init__(self, server: RendezvousServer) -> None:
        self._server = server
        self.address = server.address
        self._is_over = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def workers(self) -> tuple[Worker, ...]:
        """Return the connected workers."""
        with self._lock:
            return self._server.workers

    def members(self, count: int) -> bool:
        """Return whether the connected workers are so many and have all met."""
        workers = self.workers()
        return len(workers) == count and all(worker.rank is not None for worker in workers)

    def losses(self) -> tuple[str, ...]:
        """Return the losses since the latest meeting."""
        with self._lock:
            return self._server.losses

    def is_ending(self) -> bool:
        """Return whether a worker is done."""
        with self._lock:
            return self._server.is_ending

    def announce(self, added: Sequence[str]) -> None:
        """Send an update."""
        with self._lock:
            self._server.announce(added=added)

    def dismiss(self, rank: int, text: str) -> None:
        """Dismiss the worker of a rank."""
        with self._lock:
            self._server.dismiss(next(worker for worker in self._server.workers if worker.rank == rank), text)

    def dismiss_process(self, pid: int) -> None:
        """Dismiss the worker of a process, if it is connected, and tell the world that it is to go."""
        with self._lock:
            for worker in self._server.workers:
                if worker.pid == pid:
                    self._server.dismiss(worker, "it is taken out")
                    self._server.announce(removed=[str(worker)])

    def stop(self) -> None:
        """Stop to serve; idempotent."""
        self._is_over.set()
        self._thread.join()

    def _serve(self) -> None:
        readable = select.poll()
        readable.register(self._server.fileno(), select.POLLIN)
        while not self._is_over.is_set():
            readable.poll(min(_LONGEST_TURN_S, self._server.next_look_s()) * 1000)
            with self._lock:
                self._server.serve_ready()


@contextmanager
def served(
    roster: Roster, *, host: str = "127.0.0.1", port: int = 0, patience: Patience = PATIENT, key: str = KEY
) -> Iterator[Served]:
    """Serve a rendezvous."""
    with closing(RendezvousServer(bytes.fromhex(key), host, roster, port, patience=patience)) as server:
        thread = Served(server)
        try:
            yield thread
        finally:
            thread.stop()


def joining(address: str, **changes: str) -> dict[str, str]:
    """Return the variables of a worker that gets its place on arrival."""
    return {
        "RINGTUNE_RENDEZVOUS": address,
        "RINGTUNE_JOB_KEY": KEY,
        "RINGTUNE_TIMEOUT_S": str(DEADLINE_S),
        **changes,
    }


class BareWorker:
    """A worker that speaks the protocol step by step, and dies between two of them."""

    def __init__(self, address: str, key: str = KEY, **described: object) -> None:
        """Connect and ask for a meeting; `described` replaces fields of the worker's description."""
        server = Address.parse(address)
        to = Destination(Address("tcp", server.host, server.port), NO_RANK, JOIN_PURPOSE)
        nothing: Message = {"first_meeting": None, "meeting": None, "rank": None}
        join = {"site": own_site().to_text(), "host_name": "bare", "pid": 1, "worker_id": "", **nothing, **described}
        membership = Membership(NO_RANK, 0, bytes.fromhex(key))
        self.channel: Channel = open_channel(to, membership, join, Deadline.after(DEADLINE_S))
        self.channel.send({"type": "next"})

    def hear(self, kind: str) -> Message:
        """Return the next message of a kind."""
        while True:
            message = self.channel.receive(Deadline.after(DEADLINE_S))
            if message["type"] == kind:
                return message

    def say(self, kind: str, **fields: object) -> None:
        """Send a message."""
        self.channel.send({"type": kind, **fields})

    def die(self) -> None:
        """End as a process does that is killed."""
        self.channel.close()
