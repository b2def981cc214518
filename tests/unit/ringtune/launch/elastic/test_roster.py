# SPDX-License-Identifier: Apache-2.0
"""The launcher's roster: which of its workers meet, when, and the workers that a running world is told of."""

from collections.abc import Sequence

import pytest

from ringtune.launch.elastic.crew import Crew, CrewMember
from ringtune.launch.elastic.roster import BATCH_S, COMPANY_S, LauncherRoster
from ringtune.launch.elastic.sizes import WorldLimits
from ringtune.launch.processes import RankExit
from ringtune.meeting.rendezvous.roster import Gathering, Worker

LIMITS = WorldLimits(min_workers=2, first_workers=3, max_workers=4, start_s=30.0)


class Job:
    """A roster with workers that a test lets come and go."""

    def __init__(self, limits: WorldLimits = LIMITS) -> None:
        """Begin without workers."""
        self.crew = Crew()
        self.meetings: list[list[int]] = []
        self.roster = LauncherRoster(self.crew, limits, lambda: "host a", self._note)
        self.workers: dict[int, Worker] = {}

    def _note(self, members: Sequence[CrewMember]) -> None:
        self.meetings.append([member.number for member in members])

    def start(self, count: int) -> None:
        """Start workers."""
        for _ in range(count):
            self.crew.add("a")

    def come(self, *numbers: int) -> None:
        """Let workers come to the server."""
        for number in numbers:
            self.workers[number] = Worker(number, str(number), "h", "a", 100 + number)
            assert self.roster.refusal(self.workers[number], ()) is None

    def gather(self, *numbers: int, waited_s: float = 0.0, quiet_s: float = 0.0) -> list[int] | None:
        """Begin the meeting of the waiting workers; return its members by rank."""
        present = tuple(self.workers[number] for number in numbers)
        chosen = self.roster.meeting(Gathering(present, waited_s, quiet_s))
        if chosen is None:
            return None
        number = len(self.meetings)
        ranks = [
            Worker(w.arrival, w.worker_id, w.host, w.host_name, w.pid, number, number, rank)
            for rank, w in enumerate(chosen)
        ]
        self.workers.update({int(worker.worker_id): worker for worker in ranks})
        self.roster.met(number, ranks)
        return self.meetings[-1]

    def lose(self, number: int) -> None:
        """End a worker."""
        self.crew.note_exit(RankExit(number, 137, 9), 0, 0.0)
        self.roster.ended(self.workers[number], "its connection ended", is_done=False)
        self.crew.settle(0.0)


def test_the_first_meeting_waits_for_its_number_and_for_those_on_their_way() -> None:
    """The largest number begins at once."""
    job = Job()
    job.start(4)
    job.come(0, 1, 2)

    assert job.gather(0, 1) is None
    assert job.gather(0, 1, 2, quiet_s=1.0) is None  # the fourth is starting
    assert COMPANY_S - 1.0 == job.roster.next_look_s()
    job.come(3)
    assert [0, 1, 2, 3] == job.gather(0, 1, 2, 3)


def test_the_first_meeting_does_not_wait_for_ever_for_its_number() -> None:
    """After the time to start, the smallest number is enough."""
    job = Job()
    job.start(2)
    job.come(0, 1)

    assert job.gather(0, 1, waited_s=10.0, quiet_s=10.0) is None
    assert 20.0 == job.roster.next_look_s()
    assert [0, 1] == job.gather(0, 1, waited_s=30.0, quiet_s=30.0)


def test_survivors_wait_for_nobody_that_is_starting() -> None:
    """A newcomer that waits comes along, after them."""
    job = Job()
    job.start(3)
    job.come(0, 1, 2)
    job.gather(0, 1, 2)
    job.lose(0)
    job.start(2)

    assert [1, 2] == job.gather(1, 2)
    job.come(3)
    assert [1, 2, 3] == job.gather(3, 2, 1)
    assert 2 == job.roster.resets


def test_below_the_smallest_number_there_is_no_meeting() -> None:
    """The error at the limit gives the missing number of workers and names the hosts."""
    job = Job()
    job.start(3)
    job.come(0, 1, 2)
    job.gather(0, 1, 2)
    job.lose(0)
    job.lose(1)
    job.start(1)

    assert job.gather(2) is None
    assert "1 of at least 2 workers wait, 1 are starting; hosts: host a" == (
        job.roster.describe_missing([job.workers[2]])
    )


def test_no_more_workers_meet_than_the_largest_number() -> None:
    """Those that have the state come first."""
    job = Job()
    job.start(6)
    job.come(0, 1, 2)
    job.gather(0, 1, 2, quiet_s=COMPANY_S)
    job.come(3, 4, 5)

    assert [0, 1, 2, 3] == job.gather(5, 4, 3, 2, 1, 0)


def test_a_worker_that_is_to_leave_does_not_meet() -> None:
    """The worker is not let in again either."""
    job = Job()
    job.start(3)
    job.come(0, 1, 2)
    job.gather(0, 1, 2)
    (leaving, *_) = job.crew
    leaving.leave_by_s = 9.0

    assert [1, 2] == job.gather(0, 1, 2)
    assert "this worker is to leave the job" == job.roster.refusal(job.workers[0], ())


def test_strangers_are_turned_away() -> None:
    """The launcher did not start them, although they hold the job key."""
    assert "has started no worker '7'" in str(Job().roster.refusal(Worker(0, "7", "h", "a", 1), ()))


def test_the_reset_limit_is_a_number_of_meetings_after_the_first() -> None:
    """Newcomers are not announced when none is left; a loss then ends the job."""
    job = Job(WorldLimits(min_workers=1, first_workers=2, max_workers=4, reset_limit=1))
    job.start(3)
    job.come(0, 1, 2)
    job.gather(0, 1, 2)
    job.lose(0)
    job.gather(1, 2)
    job.start(1)
    job.come(3)

    assert not job.roster.wants_update([job.workers[1], job.workers[2]], [job.workers[3]])
    assert not job.roster.is_exhausted
    assert job.gather(1, 2) is None
    assert job.roster.is_exhausted


def test_a_running_world_is_told_of_several_newcomers_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The interruption comes when all that are starting are there, or have had their time."""
    now_s = [0.0]
    monkeypatch.setattr("ringtune.launch.elastic.roster.time.monotonic", lambda: now_s[0])
    job = Job()
    job.start(2)
    job.come(0, 1)
    job.gather(0, 1, waited_s=LIMITS.start_s)
    members = [job.workers[0], job.workers[1]]
    job.start(2)
    job.come(2)

    assert not job.roster.wants_update(members, [job.workers[2]])
    assert BATCH_S == job.roster.batch_due_s()
    now_s[0] = BATCH_S
    assert job.roster.wants_update(members, [job.workers[2]])
    job.come(3)
    assert job.roster.wants_update(members, [job.workers[2], job.workers[3]])
    assert not job.roster.wants_update([*members, *members], [job.workers[2]])  # the job is full


def test_the_word_done_ends_the_joining() -> None:
    """A newcomer that comes then is sent away and is no loss."""
    job = Job()
    job.start(4)
    job.come(0, 1, 2)
    job.gather(0, 1, 2, quiet_s=COMPANY_S)
    job.come(3)

    job.roster.ended(job.workers[0], "its work is done", is_done=True)
    job.roster.ended(job.workers[3], "the job has ended", is_done=True)

    done, _, _, late = job.crew
    assert (True, True) == (done.is_done, job.roster.is_ending)
    assert (False, False) == (late.is_done, late.is_staffed)
    assert not job.roster.wants_update([job.workers[1], job.workers[2]], [job.workers[3]])


def test_a_worker_that_connects_anew_is_in_sight_again() -> None:
    """The late end of its old connection does not count."""
    job = Job()
    job.start(1)
    job.come(0)
    old = job.workers[0]
    (member,) = job.crew

    assert job.roster.refusal(Worker(5, "0", "h", "a", 100), ()) is None
    job.roster.ended(old, "its connection ended", is_done=False)

    assert (5, True, None) == (member.arrival, member.is_connected, member.dropped_s)
