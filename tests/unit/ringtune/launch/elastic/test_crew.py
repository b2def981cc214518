# SPDX-License-Identifier: Apache-2.0
"""Workers from start to end: how each end counts, and the workers that are overdue."""

from signal import SIGKILL

import pytest

from ringtune.launch.elastic.crew import ABSENCE_S, WORD_LIMIT_S, Crew, CrewMember, Fate
from ringtune.launch.processes import RankExit
from ringtune.meeting.rendezvous.roster import Worker

CLEAN, FAILED, KILLED = RankExit(0, 0, 0), RankExit(0, 3, 0), RankExit(0, 137, SIGKILL)
HOST_LOST = RankExit(0, 137, SIGKILL, loss="cable")


def ended(exit_: RankExit, *, is_done: bool = False, leaves: bool = False, is_connected: bool = False) -> CrewMember:
    """Return a worker that has ended at time 0."""
    member = CrewMember(0, "a", is_done=is_done, is_connected=is_connected, leave_by_s=1.0 if leaves else None)
    member.exit, member.exit_s = exit_, 0.0
    return member


@pytest.mark.parametrize(
    ("member", "fate"),
    [
        (ended(CLEAN, is_done=True), Fate.DONE),
        (ended(CLEAN), Fate.LOST),
        (ended(FAILED), Fate.LOST),
        (ended(FAILED, is_done=True), Fate.LOST),
        (ended(KILLED), Fate.LOST),
        (ended(HOST_LOST), Fate.LOST),
        (ended(CLEAN, leaves=True), Fate.LEFT),
        (ended(KILLED, leaves=True), Fate.LEFT),
        (ended(HOST_LOST, leaves=True), Fate.LEFT),
        (CrewMember(0, "a"), None),
    ],
)
def test_success_is_the_word_done_and_exit_code_0(member: CrewMember, fate: Fate | None) -> None:
    """Either alone is a loss; a worker that is to leave may end as it likes."""
    assert fate is member.fate(0.0)


def test_the_word_may_come_after_the_exit() -> None:
    """Both come by ways of their own; a worker whose connection lives is waited for, for a moment."""
    member = ended(CLEAN, is_connected=True)

    assert member.fate(WORD_LIMIT_S - 0.1) is None
    member.is_done = True
    assert Fate.DONE is member.fate(WORD_LIMIT_S - 0.1)
    member.is_done = False
    assert Fate.LOST is member.fate(WORD_LIMIT_S)


def test_an_end_is_settled_once_and_numbers_are_not_used_again() -> None:
    """A successor has a number of its own."""
    crew = Crew()
    crew.add("a")
    crew.note_exit(CLEAN, 7, 1.0)

    assert [(0, Fate.LOST, 7)] == [(member.number, fate, member.pid) for member, fate in crew.settle(1.0)]
    assert [] == crew.settle(1.0)
    assert (1, 2) == (crew.add("a").number, crew.started)
    crew.note_exit(RankExit(9, 0, 0), 0, 1.0)  # nobody's


def test_workers_are_overdue_that_should_have_left_or_are_out_of_sight() -> None:
    """A worker that has said done may take its time after it."""
    crew = Crew()
    for number in range(4):
        member = crew.add("a")
        member.arrival, member.dropped_s = number, 0.0 if number in {1, 2} else None
    leaving, _, done, _ = crew
    leaving.leave_by_s, done.is_done = 5.0, True

    assert 5.0 == crew.next_change_s()
    assert [0] == [member.number for member in crew.overdue(5.0)]
    assert [0, 1] == [member.number for member in crew.overdue(ABSENCE_S)]


def test_a_worker_that_never_comes_is_overdue() -> None:
    """One that hangs before `init()` does not hold its slot for ever."""
    crew = Crew()
    crew.add("a", 100.0)
    crew.add("a", 100.0).arrival = 0

    assert 100.0 == crew.next_change_s()
    assert [] == crew.overdue(99.0)
    assert [0] == [member.number for member in crew.overdue(100.0)]


def test_a_worker_of_the_server_is_found_by_its_id_alone() -> None:
    """Strangers with the job key and malformed ids are no workers."""
    crew = Crew()
    member = crew.add("a")

    assert member is crew.of(Worker(0, "0", "h", "a", 1))
    for text in ("", "1", "x", "-0", "\u0660", "0" * 5000, "0\n"):
        assert crew.of(Worker(0, text, "h", "a", 1)) is None


def test_staffed_workers_run_and_are_meant_to_go_on() -> None:
    """Those that are starting have not come to the server yet."""
    crew = Crew()
    first, second, third = (crew.add("a") for _ in range(3))
    first.arrival, second.leave_by_s = 0, 9.0

    assert [first, third] == crew.staffed()
    assert [third] == crew.starting()
    assert [first, second, third] == crew.running()
