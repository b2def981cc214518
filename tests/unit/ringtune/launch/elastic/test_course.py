# SPDX-License-Identifier: Apache-2.0
"""The course of an elastic job: the losses that it survives, its end, and its exit code."""

from signal import SIGINT, SIGKILL

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.elastic.course import Course, describe_loss
from ringtune.launch.elastic.crew import CrewMember, Fate
from ringtune.launch.elastic.host_table import Cooldown
from ringtune.launch.elastic.sizes import WorldLimits
from ringtune.launch.processes import RankExit
from ringtune.meeting.rendezvous.progress import Progress

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
    """No worker is started once one is done."""
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
    """A worker that was killed long ago is no evidence against the program."""
    job = course()
    job.note_end(member(0, 137, SIGKILL), Fate.LOST)
    job.note_meeting(RUNNING)
    job.note_end(member(1, 5), Fate.LOST)
    job.judge([], 0, 5.0)

    assert (True, 5) == (job.is_complete, job.exit_code())


class Job:
    """An elastic job whose workers meet and fail; others are always starting."""

    def __init__(self, limits: WorldLimits = LIMITS) -> None:
        """Begin without a meeting."""
        self.course = Course(limits, 0.0)
        self._meetings = 0
        self._clock_s = 0.0
        self._world: dict[int, CrewMember] = {}
        self._left: dict[int, CrewMember] = {}  # of earlier worlds
        self._starting = CrewMember(99, "a")

    def meet(self, *numbers: int, place: Progress | None = None) -> None:
        """Let workers meet; the survivors tell the place of their last commit."""
        found = {number: self._world.get(number) or CrewMember(number, "a", arrival=number) for number in numbers}
        for rank, (number, member) in enumerate(found.items()):
            member.progress = place if number in self._world else None
            member.meeting, member.rank, member.world_size = self._meetings, rank, len(numbers)
        self.course.note_meeting(list(found.values()))
        self._left |= self._world
        self._world, self._meetings = found, self._meetings + 1

    def lose(
        self,
        number: int,
        exit_: RankExit,
        place: Progress | None = None,
        failure: str = "",
        *,
        is_expelled: bool = False,
    ) -> bool:
        """End a worker with its last words; return whether the job ends."""
        member = self._world.pop(number, None) or self._left.pop(number, None) or CrewMember(number, "a")
        self._clock_s += 1.0
        member.exit, member.exit_s, member.failure = exit_, self._clock_s, failure
        member.progress, member.is_expelled = place or member.progress, is_expelled
        self.course.note_end(member, Fate.LOST)
        running = [*self._world.values(), self._starting]
        self.course.judge(running, len(running), self._clock_s)
        return bool(self.course.failure)


def at(commits: int = 1, moving: tuple[str, ...] = ("step",), **counters: int) -> Progress:
    """Return the place of a commit."""
    return Progress(counters, frozenset(moving), commits)


FAILED, KILLED = RankExit(0, 1, 0), RankExit(0, 137, SIGKILL)


def test_a_failure_that_repeats_on_as_many_workers_as_the_world_had_ends_the_job() -> None:
    """Each worker that becomes rank 0 fails at one step, while others are being started; the first one's code holds."""
    job = Job()
    job.meet(0, 1, 2)

    assert not job.lose(0, RankExit(0, 4, 0), at(step=10), "PermissionError: folder, at step 19")
    job.meet(1, 2, place=at(step=10))
    job.meet(1, 2, 3, place=at(step=10))
    assert not job.lose(1, FAILED, at(0, step=10), "PermissionError: folder, at step 19")
    job.meet(2, 3, place=at(0, step=10))
    assert job.lose(2, FAILED, at(0, step=10), "PermissionError: folder, at step 19")

    assert 4 == job.course.exit_code()
    assert (
        "worker 0 (host a, pid 0, rank 0) exited with code 4 (PermissionError: folder, at step 19), and 2 other "
        "workers after it, with no newer commit in between" == job.course.failure
    )


@pytest.mark.parametrize("is_told", [True, False], ids=["told by the next failure", "told by survivors"])
def test_failures_that_a_newer_commit_separates_do_not_add_up(is_told: bool) -> None:
    """A job that makes progress survives any number of workers that fail by themselves, however they end."""
    job = Job()
    job.meet(0, 1, 2)
    ended = False
    for number in range(9):
        place = at(step=10 * (number + 1))
        ended |= job.lose(number, FAILED, *((place, "ValueError") if is_told else (None, "")))
        job.meet(number + 1, number + 2, number + 3, place=place)

    assert not ended


def test_the_end_of_a_world_of_which_each_worker_failed_by_itself_ends_the_job() -> None:
    """The last worker of a shrunken world fails: no worker with the state is left for another one to go on from."""
    job = Job()
    job.meet(0, 1, 2)
    assert not job.lose(0, KILLED)
    assert not job.lose(1, KILLED)
    job.meet(2, place=at(step=10))
    job.meet(3)  # came while the end of the last one was not seen yet

    assert job.lose(2, FAILED)


def test_losses_by_signals_and_of_workers_that_were_left_behind_are_no_failures_of_the_program() -> None:
    """Machines that are taken away again and again do not end a job, whatever code their workers have."""
    job = Job()
    ended = False
    for number in range(0, 12, 3):
        job.meet(number, number + 1, number + 2, place=at(step=10))
        ended |= job.lose(number, FAILED, is_expelled=True) or job.lose(number + 1, KILLED)

    assert not ended


def test_workers_that_cannot_join_a_running_world_do_not_end_it() -> None:
    """A broken host starts one worker after the other, while those of others train from one rare commit to the next."""
    job = Job()
    job.meet(0, 1, 2)

    assert [False] * 6 == [job.lose(number, FAILED) for number in range(3, 9)]


def test_workers_that_fail_one_after_the_other_before_they_have_met_end_the_job() -> None:
    """A program that cannot be imported fails at different times on slow and on fast hosts."""
    job = Job()

    assert [False, False, True] == [job.lose(number, RankExit(0, 7, 0)) for number in range(3)]
    assert 7 == job.course.exit_code()


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
