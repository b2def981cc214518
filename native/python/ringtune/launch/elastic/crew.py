# SPDX-License-Identifier: Apache-2.0
"""Workers of an elastic job, from start to end: their hosts, their states, the meaning of each end. Pure.

A worker is *staffed* while it runs and is meant to go on. A worker that says *done* has done its work; the exit code
alone is no proof of it, for a worker that is killed may end with 0, too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from ringtune.launch.processes import RankExit
from ringtune.meeting.rendezvous.progress import Progress
from ringtune.meeting.rendezvous.roster import Worker

ABSENCE_S = 35.0  # for a worker that the rendezvous server has lost or expelled; it tries for 30 s to come back
WORD_LIMIT_S = 3.0  # for the last words of a worker that has exited by itself: they come by another way than its exit


class Fate(Enum):
    """Meaning of a worker's end for the job."""

    DONE = "its work is done"
    LEFT = "it was to leave"
    LOST = "it was lost"


@dataclass
class CrewMember:
    """One worker. Times are seconds on one clock.

    Attributes:
        number: Number of the worker; it keeps it, whatever its rank is.
        host: Name of its host in the host table.
        come_by_s: Time by which it is to have come to the rendezvous server.
        pid: Its process id, as its own host counts; 0 until it is known.
        arrival: Number of its latest connection to the rendezvous server; None before it has come.
        meeting: Number of its latest meeting; None for a newcomer.
        rank: Its rank there.
        world_size: Number of workers there; 0 for a newcomer.
        is_connected: Whether the rendezvous server hears of it.
        is_done: Whether it has said that its work is done.
        progress: Place of its training, as it told it last; None where it has told none.
        failure: Its own words on why it failed; empty without any.
        is_expelled: Whether the others have gone on without it although it ran.
        dropped_s: When the rendezvous server heard of it for the last time, or did without it; None while it hears.
        leave_by_s: Time by which it is to have left; None for a worker that is meant to go on.
        exit: End of its process; None while it runs.
        exit_s: When that was seen.
    """

    number: int
    host: str
    come_by_s: float = float("inf")
    pid: int = 0
    arrival: int | None = None
    meeting: int | None = None
    rank: int | None = None
    world_size: int = 0
    is_connected: bool = False
    is_done: bool = False
    progress: Progress | None = None
    failure: str = ""
    is_expelled: bool = False
    dropped_s: float | None = None
    leave_by_s: float | None = None
    exit: RankExit | None = None
    exit_s: float = 0.0

    @property
    def is_running(self) -> bool:
        """True until its process has ended."""
        return self.exit is None

    @property
    def is_staffed(self) -> bool:
        """True while it runs and is meant to go on."""
        return self.is_running and self.leave_by_s is None

    @property
    def end_by_s(self) -> float:
        """Time by which its process is to have ended; infinity where it may go on."""
        if self.leave_by_s is not None:
            return self.leave_by_s
        if self.arrival is None:
            return self.come_by_s
        return float("inf") if self.dropped_s is None or self.is_done else self.dropped_s + ABSENCE_S

    @property
    def ended_itself(self) -> bool:
        """True if its program ended by its own doing: neither killed, nor lost with its host, nor left behind."""
        return self.exit is not None and not (self.exit.signal_number or self.exit.loss or self.is_expelled)

    def fate(self, now_s: float) -> Fate | None:
        """Return how its end counts; None while that cannot be told."""
        if self.exit is None:
            return None
        if self.leave_by_s is not None:
            return Fate.LEFT
        if self.is_done and self.exit.code == 0:
            return Fate.DONE
        may_still_say = self.ended_itself and self.is_connected and now_s < self.exit_s + WORD_LIMIT_S
        return None if may_still_say else Fate.LOST

    def __str__(self) -> str:
        """Return the worker in words."""
        rank = "" if self.rank is None else f", rank {self.rank}"
        return f"worker {self.number} (host {self.host}, pid {self.pid}{rank})"


class Crew:
    """All workers whose end was not settled yet."""

    def __init__(self) -> None:
        self._members: dict[int, CrewMember] = {}
        self._next_number = 0

    def __iter__(self) -> Iterator[CrewMember]:
        return iter(list(self._members.values()))

    @property
    def started(self) -> int:
        """Number of workers that were started so far."""
        return self._next_number

    def add(self, host: str, come_by_s: float = float("inf")) -> CrewMember:
        """Return a new worker on a host, which is to come to the rendezvous server by some time."""
        member = CrewMember(self._next_number, host, come_by_s)
        self._members[member.number] = member
        self._next_number += 1
        return member

    def running(self) -> list[CrewMember]:
        """Return the workers whose processes run."""
        return [member for member in self if member.is_running]

    def strike(self, number: int) -> None:
        """Leave out a worker that could not be started."""
        del self._members[number]

    def staffed(self) -> list[CrewMember]:
        """Return the workers that run and are meant to go on."""
        return [member for member in self if member.is_staffed]

    def starting(self) -> list[CrewMember]:
        """Return the staffed workers that have not come to the rendezvous server yet."""
        return [member for member in self if member.is_staffed and member.arrival is None]

    def of(self, worker: Worker) -> CrewMember | None:
        """Return the member that a worker of the rendezvous server is; None for a stranger."""
        known = worker.worker_id.isascii() and worker.worker_id.isdigit() and len(worker.worker_id) < 10
        return self._members.get(int(worker.worker_id)) if known else None

    def note_exit(self, ended: RankExit, pid: int, now_s: float) -> None:
        """Take the end of a worker's process, and its process id where that is known."""
        member = self._members.get(ended.rank)
        if member is not None:
            member.exit, member.exit_s, member.pid = ended, now_s, pid or member.pid

    def settle(self, now_s: float) -> list[tuple[CrewMember, Fate]]:
        """Return, once, the workers that have ended, and how each end counts."""
        settled = [(member, fate) for member in self if (fate := member.fate(now_s)) is not None]
        for member, _ in settled:
            del self._members[member.number]
        return settled

    def overdue(self, now_s: float) -> list[CrewMember]:
        """Return the workers that run and are to be ended: late to leave or to come, or out of the server's sight."""
        return [member for member in self.running() if now_s >= member.end_by_s]

    def next_change_s(self) -> float:
        """Return when the next end is settled, or the next worker is overdue; infinity if none is."""
        return min([m.exit_s + WORD_LIMIT_S if m.exit is not None else m.end_by_s for m in self], default=float("inf"))
