# SPDX-License-Identifier: Apache-2.0
"""Rosters decide which workers take part in a meeting, when it begins, and in which order they get ranks.

A rendezvous server calls a roster from its own thread and takes decisions alone from it; the roster opens no socket
and starts no process. A *worker* is a process of the job; a *newcomer* has taken part in no meeting yet; a *survivor*
has taken part in the latest one.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from .progress import Progress


@dataclass(frozen=True)
class Worker:
    """A process that has connected to the rendezvous server and has proved that it holds the job key.

    Attributes:
        arrival: Number of the connection, from 0; it identifies the worker as long as the server runs.
        worker_id: Name that its launcher gave it; empty where it gave none.
        host: Identity of its host; equal for workers that can share memory.
        host_name: Name of its host, for people.
        pid: Process id, as its own host counts.
        first_meeting: Number of the first meeting that it took part in; None for a newcomer.
        meeting: Number of the latest one; None for a newcomer.
        rank: Rank that it got there; None for a newcomer.
        progress: Progress of its training, as it last reported it; None where it has reported none.
        failure: Its own report of its failure; empty while it has not failed or sent none.
        is_expelled: Whether the others go on without it although it runs.
    """

    arrival: int
    worker_id: str
    host: str
    host_name: str
    pid: int
    first_meeting: int | None = None
    meeting: int | None = None
    rank: int | None = None
    progress: Progress | None = None
    failure: str = ""
    is_expelled: bool = False

    def __str__(self) -> str:
        """Return the worker in words, for messages."""
        name = f"{self.worker_id!r}, " if self.worker_id else ""
        return f"{name}host {self.host_name}, pid {self.pid}"


@dataclass(frozen=True)
class Gathering:
    """The workers that wait for a meeting. Every survivor is among them or has ended.

    Attributes:
        present: Workers that wait, in the order of their arrival; at least one.
        waited_s: Seconds since the first of them began to wait.
        quiet_s: Seconds since a worker began to wait, or ended, for the last time.
    """

    present: tuple[Worker, ...]
    waited_s: float
    quiet_s: float


class Roster(Protocol):
    """The decisions of a rendezvous server. Methods are called from the server's thread and must not block."""

    def refusal(self, worker: Worker, others: Sequence[Worker], /) -> str | None:
        """Return why a newcomer is turned away, a sentence that its `init()` raises; None lets it in.

        Args:
            worker: The newcomer.
            others: Workers that are connected already.
        """

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """Return the workers that meet now, out of those present, in the order of their ranks; None to wait.

        The server asks after each change and after `next_look_s`. It does not ask while a survivor runs that has
        neither ended nor asked for the next meeting.
        """

    def describe_missing(self, present: Sequence[Worker]) -> str:
        """Describe the workers that a meeting lacks, such as `1 of 4 workers is missing`, for the timeout error.

        Args:
            present: Workers that wait.
        """

    def wants_update(self, members: Sequence[Worker], waiting: Sequence[Worker], /) -> bool:
        """Return whether a running world gets an update, once, for newcomers that wait to take part.

        Args:
            members: Workers of the running world, in the order of their ranks.
            waiting: Newcomers that wait.
        """

    def met(self, number: int, ranks: Sequence[Worker], /) -> None:
        """Take note that a meeting begins.

        Args:
            number: Number of the meeting, from 0.
            ranks: Its workers in the order of their ranks; `meeting` and `rank` of each are those of this meeting.
        """

    def ended(self, worker: Worker, text: str, *, is_done: bool) -> None:
        """Take note that a worker has ended, or was expelled.

        Args:
            worker: The worker, as it was at its last meeting.
            text: Description of its end.
            is_done: Whether it reported that its work is done; False is a loss, whatever its exit code.
        """

    def next_look_s(self) -> float:
        """Return the seconds after which `meeting` is worth another call even without a change; infinity: never."""


class _QuietRoster:
    """A roster that keeps no record."""

    def met(self, _number: int, _ranks: Sequence[Worker], /) -> None:
        """Keep no record of meetings."""

    def ended(self, worker: Worker, text: str, *, is_done: bool) -> None:
        """Keep no record of ends."""


class FixedRoster(_QuietRoster):
    """A job of a fixed number of workers: a meeting begins when all of them wait."""

    def __init__(self, size: int) -> None:
        """Make the roster of `size` workers."""
        self._size = size

    def refusal(self, _worker: Worker, others: Sequence[Worker], /) -> str | None:
        """Turn away a worker over the number."""
        if len(others) < self._size:
            return None
        return (
            f"the job has its {self._size} workers already ({_listed(others)}); end one of them first, or start the "
            "rendezvous server for more"
        )

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """Begin when all are there."""
        return in_rank_order(gathering.present) if len(gathering.present) == self._size else None

    def describe_missing(self, present: Sequence[Worker]) -> str:
        """Count the missing and list the present."""
        return _counted(self._size - len(present), self._size, present)

    def wants_update(self, _members: Sequence[Worker], _waiting: Sequence[Worker], /) -> bool:
        """Ask for no update: a newcomer replaces a lost worker, whose loss the others notice."""
        return False

    def next_look_s(self) -> float:
        """Return infinity: only an arrival matters."""
        return math.inf


class RangeRoster(_QuietRoster):
    """A job of a varying number of workers. Newcomers over the maximum wait until a place becomes free."""

    def __init__(self, min_size: int, max_size: int, quiet_s: float) -> None:
        """Make the roster.

        Args:
            min_size: Smallest number of workers that may train.
            max_size: Largest number.
            quiet_s: The first meeting, of fewer than the largest number, begins when none has come for so long.
        """
        self._min_size = min_size
        self._max_size = max_size
        self._quiet_s = quiet_s
        self._has_met = False
        self._next_look_s = math.inf

    def refusal(self, _worker: Worker, _others: Sequence[Worker], /) -> str | None:
        """Let every worker in: over the maximum it waits."""
        return None

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """Begin when the largest number is there, or enough are and no other is expected."""
        self._next_look_s = math.inf
        chosen = by_seniority(gathering.present)[: self._max_size]
        if len(chosen) < self._min_size:
            return None
        if len(chosen) == self._max_size or self._has_met or gathering.quiet_s >= self._quiet_s:
            return in_rank_order(chosen)
        self._next_look_s = self._quiet_s - gathering.quiet_s
        return None

    def met(self, _number: int, _ranks: Sequence[Worker], /) -> None:
        """Expect no newcomer any more: later meetings begin at once, and a latecomer causes an update."""
        self._has_met = True

    def describe_missing(self, present: Sequence[Worker]) -> str:
        """Count the missing and list the present."""
        return _counted(self._min_size - len(present), self._min_size, present)

    def wants_update(self, members: Sequence[Worker], waiting: Sequence[Worker], /) -> bool:
        """Update the world if there is room for one of those that wait."""
        return bool(waiting) and len(members) < self._max_size

    def next_look_s(self) -> float:
        """Return the rest of the time for which newcomers are expected."""
        return self._next_look_s


def by_seniority(workers: Sequence[Worker]) -> tuple[Worker, ...]:
    """Return the survivors of the latest meeting, then all others in the order of their arrival.

    Among survivors those of the earlier first meeting come first, then the lower rank: when a meeting falls apart
    before its newcomers have got the state of the training, a worker that has the state still comes before them.
    """
    latest = max((worker.meeting for worker in workers if worker.meeting is not None), default=None)

    def seniority(worker: Worker) -> tuple[float, float, int]:
        if worker.rank is None or worker.first_meeting is None or worker.meeting != latest:
            return (math.inf, math.inf, worker.arrival)
        return (worker.first_meeting, worker.rank, worker.arrival)

    return tuple(sorted(workers, key=seniority))


def in_rank_order(workers: Sequence[Worker]) -> tuple[Worker, ...]:
    """Return workers in the order of their next ranks.

    Survivors come first, so that rank 0 has the state of the training wherever one of them is there. The ranks of a
    host are contiguous. Hosts follow each other in the order of their most senior workers; see `by_seniority`.
    """
    senior = by_seniority(workers)
    hosts = list(dict.fromkeys(worker.host for worker in senior))
    return tuple(sorted(senior, key=lambda worker: hosts.index(worker.host)))


def _counted(missing: int, size: int, present: Sequence[Worker]) -> str:
    """Return the number of missing workers and a list of those present."""
    verb = "is" if missing == 1 else "are"
    return f"{missing} of {size} workers {verb} missing; present: {_listed(present) or 'none'}"


def _listed(workers: Sequence[Worker]) -> str:
    return "; ".join(str(worker) for worker in workers)
