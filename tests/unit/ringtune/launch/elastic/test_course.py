# SPDX-License-Identifier: Apache-2.0
"""The course of an elastic job: what it survives, when it is over, and its exit code."""

from signal import SIGINT, SIGKILL

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.elastic.course import Course, describe_loss
from ringtune.launch.elastic.crew import CrewMember, Fate
from ringtune.launch.elastic.host_table import Cooldown
from ringtune.launch.elastic.sizes import WorldLimits
from ringtune.launch.processes import RankExit

LIMITS = WorldLimits(min_workers=2, first_workers=3, elastic_s=100.0)


def course() -> Course:
    """Return the course of a job that begins at time 0."""
    return Course(LIMITS, 0.0)


def member(number: int, code: int = 0, signal_number: int = 0, *, exit_s: float = 1.0) -> CrewMember:
    """Return a worker that has ended."""
    ended = CrewMember(number, "a", pid=10 + number, arrival=number, rank=number)
    ended.exit, ended.exit_s = RankExit(number, code, signal_number), exit_s
    return ended


RUNNING = [CrewMember(8, "a"), CrewMember(9, "a")]


def test_a_job_whose_work_is_done_is_over_once_nobody_runs() -> None:
    """Nothing is started once a worker is done."""
    job = course()
    job.note_end(member(0), Fate.DONE)
    job.judge(RUNNING, 2, 5.0)
    assert (True, False) == (job.is_ending, job.is_complete)

    job.judge([], 0, 6.0)

    assert (True, 0, "") == (job.is_complete, job.exit_code(), job.failure)


def test_losses_do_not_end_a_job_while_others_run() -> None:
    """The exit code of a lost worker does not matter."""
    job = course()
    for lost in (member(0, 137, SIGKILL), member(1, 3), member(2)):
        job.note_end(lost, Fate.LOST)
    job.judge(RUNNING, 2, 5.0)

    assert (False, False, 0) == (job.is_ending, job.is_complete, job.exit_code())


def test_a_program_that_ends_everywhere_by_itself_ends_the_job_with_the_first_code() -> None:
    """The program would fail again on every host."""
    job = course()
    job.note_end(member(0, 3, exit_s=2.0), Fate.LOST)
    job.note_end(member(1, 4, exit_s=1.0), Fate.LOST)
    job.judge([], 0, 5.0)

    assert (True, 4) == (job.is_complete, job.exit_code())
    assert "worker 1 (host a, pid 11, rank 1) exited with code 4, and 1 other worker after it" == job.failure


def test_a_job_whose_workers_were_all_killed_begins_again() -> None:
    """Machines are taken away: the program is not to blame."""
    job = course()
    job.note_end(member(0, 137, SIGKILL), Fate.LOST)
    job.note_end(member(1, 1), Fate.LOST)
    job.judge([], 0, 5.0)

    assert not job.is_ending


def test_losses_before_a_meeting_do_not_count_after_it() -> None:
    """A worker that was killed long ago says nothing of the program."""
    job = course()
    job.note_end(member(0, 137, SIGKILL), Fate.LOST)
    job.note_meeting(RUNNING)
    job.note_end(member(1, 5), Fate.LOST)
    job.judge([], 0, 5.0)

    assert (True, 5) == (job.is_complete, job.exit_code())


def test_too_few_workers_for_too_long_end_the_job() -> None:
    """The time counts from the loss, and anew after each recovery."""
    job = course()
    job.judge(RUNNING, 2, 50.0)
    job.judge(RUNNING[:1], 1, 90.0)
    assert 190.0 == job.next_look_s()
    job.judge(RUNNING[:1], 1, 189.0)
    assert not job.is_ending
    job.judge(RUNNING[:1], 1, 190.0)

    assert (True, False, 1) == (job.is_ending, job.is_complete, job.exit_code())
    assert "for 100 s there were fewer than 2 workers (now 1); see --elastic-timeout and --min-np" == job.failure
    assert job.next_deadline_s() > 190.0  # the others are asked to end


@pytest.mark.parametrize(
    ("lost", "code"), [(member(1, 3), 3), (member(1, 0), 1), (member(1, 137, SIGKILL), 0)], ids=["code", "0", "killed"]
)
def test_a_worker_that_fails_after_others_are_done_decides_by_its_own_doing(lost: CrewMember, code: int) -> None:
    """An exception at the end, as of the rank that saves the model, is a failure; a machine that goes then is none."""
    job = course()
    job.note_meeting([member(0), lost])
    job.note_end(member(0), Fate.DONE)
    job.note_end(lost, Fate.LOST)
    job.note_end(member(7, 5), Fate.LOST)  # was left behind by an earlier meeting
    job.judge([], 0, 5.0)

    assert (True, code) == (job.is_complete, job.exit_code())
    assert bool(code) == job.failure.startswith("others have done their work, but worker 1 ")


def test_the_users_signal_is_the_code_whatever_follows() -> None:
    """Later failures of workers are none of the job."""
    job = course()
    job.note_signal(SIGINT, 1.0)
    job.note_end(member(0, 3), Fate.LOST)
    job.judge([], 0, 5.0)
    job.fail("later", 1, 6.0)

    assert (True, 130, "") == (job.is_complete, job.exit_code(), job.failure)


def test_the_first_reason_holds() -> None:
    """Later reasons follow from it."""
    job = course()
    job.fail("first", 3, 1.0)
    job.fail("second", 4, 2.0)

    assert ("first", 3) == (job.failure, job.exit_code())


def test_an_exit_with_0_is_described_by_what_was_missing() -> None:
    """Either `init()` or the word done."""
    stranger = CrewMember(0, "a", exit=RankExit(0, 0, 0))

    assert describe_loss(stranger).endswith("exited with code 0 before it had called init()")
    assert describe_loss(member(1)).endswith("exited with code 0 without having said that its work is done")
    assert describe_loss(member(1, 137, SIGKILL)).endswith("rank 1) was killed by SIGKILL")


@pytest.mark.parametrize(
    ("least", "first", "most", "cooldown", "word"),
    [
        (3, 2, 4, (1, 2), "--min-np 3, -np 2, --max-np 4 are not in order"),
        (3, 2, float("inf"), (1, 2), "--min-np 3, -np 2 are not in order"),
        (1, 5, 4, (1, 2), "-np 5, --max-np 4"),
        (1, 2, 4, (3, 2), "--blacklist-cooldown-range 3 2"),
    ],
)
def test_limits_that_contradict_each_other_are_refused(
    least: int, first: int, most: int, cooldown: tuple[float, float], word: str
) -> None:
    """The message shows all numbers."""
    with pytest.raises(ConfigError) as error:
        WorldLimits(least, first, most, cooldown=Cooldown(*cooldown))

    assert word in str(error.value)
