# SPDX-License-Identifier: Apache-2.0
"""The blamed rank, and the times when the others are asked to end and are killed."""

from signal import SIGCONT, SIGINT, SIGKILL, SIGTERM

from ringtune.launch.ending import GIVE_UP_S, NEVER_S, SELF_END_S, TERM_S, JobEnding
from ringtune.launch.processes import RankExit

KILLED = RankExit(2, 137, SIGKILL)


def test_a_job_without_failures_needs_nobody_ended() -> None:
    """Ranks that exit with 0 do not end the job, and set no deadline."""
    ending = JobEnding(2)

    complete = []
    for rank in range(2):
        ending.note_exits([RankExit(rank, 0, 0)], now_s=1.0)
        complete.append(ending.is_complete)

    assert [False, True] == complete
    assert (0, NEVER_S, None) == (ending.exit_code(), ending.next_deadline_s(), ending.first_failure)


def test_of_those_that_end_together_the_killed_one_is_blamed() -> None:
    """Survivors that hear of a kill at once fail with it, but did not cause it; a lost host causes less than a kill."""
    lost = RankExit(1, 137, SIGKILL, loss="gone")
    ending = JobEnding(4)

    ending.note_exits([RankExit(0, 1, 0), lost, KILLED], now_s=0.0)
    ending.note_exits([RankExit(3, 9, 0)], now_s=0.1)

    assert (KILLED, 137, 4) == (ending.first_failure, ending.exit_code(), ending.failures)


def test_the_others_are_left_alone_then_asked_then_killed_then_given_up() -> None:
    """Each step comes once, in its time after the one before."""
    ending = JobEnding(3)

    ending.note_exits([KILLED], now_s=0.0)
    term_s = SELF_END_S
    assert [] == ending.due_signals(term_s - 0.1)
    assert [SIGTERM, SIGCONT] == ending.due_signals(term_s)
    assert [] == ending.due_signals(term_s + TERM_S - 0.1)
    assert [SIGKILL] == ending.due_signals(term_s + TERM_S)
    assert [] == ending.due_signals(1e9)

    end_s = term_s + TERM_S + GIVE_UP_S
    assert [False, True, False] == [ending.gives_up(now_s) for now_s in (end_s - 0.1, end_s, end_s + 1)]
    assert NEVER_S == ending.next_deadline_s()


def test_the_users_signal_is_passed_on_and_the_second_kills() -> None:
    """The code tells which signal came first."""
    ending = JobEnding(2)

    assert SIGINT == ending.note_signal(SIGINT, now_s=0.0)
    assert SIGKILL == ending.note_signal(SIGTERM, now_s=1.0)

    assert 128 + SIGINT == ending.exit_code()
    assert ending.gives_up(1.0 + GIVE_UP_S)


def test_a_signal_that_the_ranks_do_not_heed_ends_in_a_kill() -> None:
    """One signal is enough for the end to come."""
    ending = JobEnding(2)

    ending.note_signal(SIGTERM, now_s=0.0)

    assert [SIGKILL] == ending.due_signals(TERM_S)
