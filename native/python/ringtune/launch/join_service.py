# SPDX-License-Identifier: Apache-2.0
"""`ringtune rendezvous`: serves one job whose workers come by themselves, reports events, and ends with the job."""

import ipaddress
import re
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ringtune.errors import ConfigError
from ringtune.meeting.rendezvous.address import LOOPBACK, Address
from ringtune.meeting.rendezvous.interfaces import own_networks
from ringtune.meeting.rendezvous.roster import FixedRoster, Gathering, RangeRoster, Roster, Worker
from ringtune.meeting.rendezvous.server import Patience, RendezvousServer
from ringtune.meeting.rendezvous.tls import CLEAR, Tls
from ringtune.system.counts import counted
from ringtune.system.event_loop import EventLoop, signals_in

EXIT_DONE, EXIT_FAILED = 0, 1
_LISTEN = re.compile(r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*):(?P<port>[0-9]{1,5})")

Say = Callable[[str], None]


@dataclass(frozen=True)
class JoinedJob:
    """A job whose workers come by themselves.

    Attributes:
        min_workers: Smallest number of workers that may train.
        max_workers: Largest number.
        is_elastic: Whether it goes on when workers are lost.
        quiet_s: Time for which more workers are expected before the first meeting of fewer than the largest number.
        patience: Time limits of the server.
        tls: Protection of the workers' connections to it.
    """

    min_workers: int
    max_workers: int
    is_elastic: bool
    quiet_s: float
    patience: Patience
    tls: Tls = CLEAR

    def roster(self) -> Roster:
        """Return the roster, which decides which workers meet."""
        if self.is_elastic:
            return RangeRoster(self.min_workers, self.max_workers, self.quiet_s)
        return FixedRoster(self.max_workers)


def listening_address(text: str | None) -> tuple[str, int]:
    """Return the host and port that `--listen` names.

    Args:
        text: `HOST:PORT`, `:PORT`, or None: this host's address on the default route, and a free port.

    Raises:
        ConfigError: If it names none.
    """
    match = _LISTEN.fullmatch(text if text is not None else ":0")
    if match is None or int(match["port"]) > 65_535:
        raise ConfigError(
            f"--listen {text!r} is not allowed; allowed: HOST:PORT or :PORT, such as 10.0.0.1:29400, or 0.0.0.0:29400 "
            "for all interfaces"
        )
    return match["host"].strip("[]") or own_address(), int(match["port"])


def own_address() -> str:
    """Return this host's address on the default route; loopback where it has no network."""
    networks = own_networks()
    return networks[0].partition("/")[0] if networks else LOOPBACK


def serve_job(job: JoinedJob, job_key: bytes, address: tuple[str, int], tell: Say, warn: Say) -> int:
    """Serve a job to its end.

    Args:
        job: The job.
        job_key: Its secret.
        address: Host and port to listen on.
        tell: Gets the server's address, as `RINGTUNE_RENDEZVOUS` takes it.
        warn: Gets a sentence for each event.

    Returns:
        0 if all workers of the last meeting have said that their work is done, 1 if one was lost or there were not
        enough, 128 + the signal that has ended the server.

    Raises:
        ConfigError: If the address cannot be listened on.
    """
    host, port = address
    _, hard_limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard_limit, hard_limit))  # each worker holds a connection
    server = RendezvousServer(job_key, host, _Narrator(job.roster(), warn), port, patience=job.patience, tls=job.tls)
    try:
        return _serve(job, server, tell, warn)
    finally:
        server.close()


def _serve(job: JoinedJob, server: RendezvousServer, tell: Say, warn: Say) -> int:
    received: list[int] = []
    verdict: tuple[int, str] | None = None
    loop = EventLoop(takes_files=True)
    loop.on_readable(server.fileno(), server.serve_ready)
    empty_since_s = time.monotonic()
    with signals_in(loop, received.append):
        tell(_reachable(server.address))
        while verdict is None and not received:
            loop.turn(min(server.next_look_s(), job.patience.meeting_s))
            server.serve_ready()
            now_s = time.monotonic()
            empty_since_s = now_s if server.is_visited else empty_since_s
            verdict = _verdict(job, server, now_s - empty_since_s)
    loop.close()
    if verdict is None:
        verdict = 128 + received[0], "ended by a signal; workers that train go on, and cannot meet again"
    warn(verdict[1])
    return verdict[0]


def _verdict(job: JoinedJob, server: RendezvousServer, empty_s: float) -> tuple[int, str] | None:
    """Return the exit code and a sentence once the job has ended."""
    if server.is_visited:
        return None
    losses = "; ".join(server.losses)
    if server.is_ending and not losses:
        return EXIT_DONE, "the job has ended: all its workers are done"
    if server.is_ending or (server.is_deserted and not job.is_elastic):
        return EXIT_FAILED, f"the job has failed: {losses}"
    if server.has_given_up:
        return EXIT_FAILED, "the job has failed: there were not enough workers in time"
    if empty_s >= job.patience.meeting_s:
        return EXIT_FAILED, f"the job has failed: no worker was there for {empty_s:.0f} s; {losses or 'none came'}"
    return None


def _reachable(address: str) -> str:
    """Return the address that others connect to, where the server listens on all interfaces."""
    parsed = Address.parse(address)
    is_any = ipaddress.ip_address(parsed.host).is_unspecified
    return str(Address(parsed.scheme, own_address(), parsed.port)) if is_any else address


class _Narrator:
    """Roster that reports each refusal and meeting."""

    def __init__(self, roster: Roster, say: Say) -> None:
        self._roster = roster
        self._say = say

    def refusal(self, worker: Worker, others: Sequence[Worker], /) -> str | None:
        """See `Roster`."""
        refusal = self._roster.refusal(worker, others)
        if refusal is not None:
            self._say(f"a worker was refused ({worker}): {refusal}")
        return refusal

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """See `Roster`."""
        return self._roster.meeting(gathering)

    def describe_missing(self, present: Sequence[Worker]) -> str:
        """See `Roster`."""
        return self._roster.describe_missing(present)

    def wants_update(self, members: Sequence[Worker], waiting: Sequence[Worker], /) -> bool:
        """See `Roster`."""
        return self._roster.wants_update(members, waiting)

    def met(self, number: int, ranks: Sequence[Worker], /) -> None:
        """See `Roster`."""
        self._roster.met(number, ranks)
        listed = "; ".join(f"{worker.rank}: {worker}" for worker in ranks)
        self._say(f"meeting {number} of {counted(len(ranks), 'worker')}, by rank {listed}")

    def ended(self, worker: Worker, text: str, *, is_done: bool) -> None:
        """See `Roster`."""
        self._roster.ended(worker, text, is_done=is_done)
        if not is_done:
            self._say(f"a worker was lost ({worker}): {text}")

    def next_look_s(self) -> float:
        """See `Roster`."""
        return self._roster.next_look_s()
