# SPDX-License-Identifier: Apache-2.0
"""Roster of the elastic launcher: which of its workers meet, and when. Starts no worker and opens no socket.

Survivors of a loss meet at once, without those that are still starting. Without survivors, as at first, a meeting
waits for the workers that are on their way.
"""

import math
import time
from collections.abc import Callable, Sequence

from ringtune.meeting.rendezvous.roster import Gathering, Worker, by_seniority, in_rank_order

from .crew import Crew, CrewMember
from .sizes import WorldLimits

COMPANY_S = 10.0  # time for which workers without a survivor wait for the next one that is starting
BATCH_S = 3.0  # time for which newcomers wait for others that are starting, before they interrupt a running world


class LauncherRoster:
    """Decides for the rendezvous server by the launcher's knowledge of its workers. See `Roster`.

    Attributes:
        meetings: Number of meetings so far.
        is_exhausted: Whether a meeting was due that `--reset-limit` does not allow.
        is_ending: Whether a worker's work is done: no worker joins any more.
    """

    def __init__(
        self,
        crew: Crew,
        limits: WorldLimits,
        describe_hosts: Callable[[], str],
        note_meeting: Callable[[Sequence[CrewMember]], None],
    ) -> None:
        """Make the roster.

        Args:
            crew: The workers.
            limits: The job's limits.
            describe_hosts: Returns the hosts in words.
            note_meeting: Gets the workers of each meeting that begins, in the order of their ranks.
        """
        self._crew = crew
        self._limits = limits
        self._describe_hosts = describe_hosts
        self._note_meeting = note_meeting
        self._next_look_s = math.inf
        self._waiting_since_s: float | None = None
        self.meetings = 0
        self.is_exhausted = False
        self.is_ending = False

    @property
    def resets(self) -> int:
        """Number of meetings after the first."""
        return max(0, self.meetings - 1)

    @property
    def may_reset(self) -> bool:
        """True if one more meeting is allowed."""
        return not self.meetings or self._limits.reset_limit is None or self.resets < self._limits.reset_limit

    def refusal(self, worker: Worker, others: Sequence[Worker]) -> str | None:
        """Let in a worker that this launcher has started and that is meant to go on."""
        del others
        member = self._crew.of(worker)
        if member is None:
            return f"the launcher has started no worker {worker.worker_id!r} that still runs; add hosts, not workers"
        member.arrival, member.is_connected, member.dropped_s = worker.arrival, True, None
        member.pid = member.pid or worker.pid
        return None if member.is_staffed else "this worker is to leave the job"

    def meeting(self, gathering: Gathering) -> Sequence[Worker] | None:
        """Begin at once with survivors; without one, when no worker is expected."""
        self._next_look_s = math.inf
        wanted = [worker for worker in gathering.present if self._is_staffed(worker)]
        chosen = by_seniority(wanted)[: self._most()]
        if len(chosen) < self._limits.min_workers:
            return None
        if not self.may_reset:
            self.is_exhausted = True
            return None
        if not any(worker.rank is not None for worker in chosen):
            rest_s = self._expected_for_s(len(chosen), gathering)
            if rest_s > 0.0:
                self._next_look_s = rest_s
                return None
        return in_rank_order(chosen)

    def describe_missing(self, present: Sequence[Worker]) -> str:
        """Count the workers that wait, and describe the hosts."""
        return (
            f"{len(present)} of at least {self._limits.min_workers} workers wait, {len(self._crew.starting())} are "
            f"starting; hosts: {self._describe_hosts()}"
        )

    def wants_update(self, members: Sequence[Worker], waiting: Sequence[Worker]) -> bool:
        """Interrupt a running world for newcomers that it has room for, and for several of them at once."""
        welcome = [worker for worker in waiting if self._is_staffed(worker)]
        if not welcome or self.is_ending or not self.may_reset or len(members) >= self._most():
            self._waiting_since_s = None
            return False
        now_s = time.monotonic()
        self._waiting_since_s = now_s if self._waiting_since_s is None else self._waiting_since_s
        is_time = not self._crew.starting() or now_s >= self._waiting_since_s + BATCH_S
        if is_time:
            self._waiting_since_s = None
        return is_time

    def met(self, number: int, ranks: Sequence[Worker], /) -> None:
        """Note everybody's rank."""
        self.meetings += 1
        members = [member for worker in ranks if (member := self._crew.of(worker)) is not None]
        for rank, (member, worker) in enumerate(zip(members, ranks, strict=True)):  # all were started by this launcher
            member.meeting, member.rank, member.world_size = number, rank, len(members)
            member.progress = worker.progress
        self._note_meeting(members)

    def ended(self, worker: Worker, text: str, *, is_done: bool) -> None:
        """Note that the server hears no more of a worker, or does without it."""
        del text  # the worker's own messages say more
        member = self._crew.of(worker)
        if member is None or member.arrival != worker.arrival:
            return
        member.is_connected, member.dropped_s = False, time.monotonic()
        member.progress, member.failure, member.is_expelled = worker.progress, worker.failure, worker.is_expelled
        if member.leave_by_s is not None:
            return
        if is_done and worker.meeting is None:  # came when others were done already
            member.leave_by_s = math.inf
            return
        member.is_done = is_done
        self.is_ending = self.is_ending or is_done

    def next_look_s(self) -> float:
        """Return the rest of the time for which workers are expected."""
        return self._next_look_s

    def batch_due_s(self) -> float:
        """Return when newcomers have waited long enough for others, on the monotonic clock; infinity if none waits."""
        return math.inf if self._waiting_since_s is None else self._waiting_since_s + BATCH_S

    def _is_staffed(self, worker: Worker) -> bool:
        member = self._crew.of(worker)
        return member is not None and member.is_staffed

    def _most(self) -> int:
        return int(min(self._limits.max_workers, 2**31))

    def _expected_for_s(self, count: int, gathering: Gathering) -> float:
        """Return how much longer a meeting without survivors waits for more workers than are there."""
        if count == self._most():
            return 0.0
        rest_s = COMPANY_S - gathering.quiet_s if self._crew.starting() else 0.0
        if not self.meetings and count < self._limits.first_workers:
            rest_s = self._limits.start_s - gathering.waited_s
        return rest_s
