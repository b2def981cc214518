# SPDX-License-Identifier: Apache-2.0
"""Turns of jobs that tune on one machine: a search and a check hold theirs, a watch does not."""

from dataclasses import dataclass, field

from ringtune.tuner import Phase
from ringtune.tuner.policy.watch import LOOK_EVERY_S
from tests.unit.tuner.policy.changing_target import CHANGE_S, HOUR_S, ChangingTarget, late_optimum, tune_for


@dataclass
class TimedTurn:
    """A turn that others hold for a while.

    Attributes:
        target: Its clock is the turn's.
        held_until_s: Time from which on it is free.
        taken_s: Times at which it was taken.
        released_s: Times at which it was released, repetitions left out.
        refused: Number of attempts that failed.
    """

    target: ChangingTarget
    held_until_s: float = 0.0
    taken_s: list[float] = field(default_factory=list)
    released_s: list[float] = field(default_factory=list)
    refused: int = 0

    def try_take(self) -> bool:
        """Take it if it is free."""
        if self.target.now_s < self.held_until_s:
            self.refused += 1
            return False
        self.taken_s.append(self.target.now_s)
        return True

    def release(self) -> None:
        """Note the time."""
        if len(self.released_s) <= len(self.taken_s):
            self.released_s.append(self.target.now_s)


def test_the_turn_ends_with_the_decision() -> None:
    """Others may search while this job watches, for hours."""
    target = ChangingTarget(lambda _: 0.0)
    turn = TimedTurn(target)

    job = tune_for(target, hours=2, turn=turn)

    first_look = job.samples(Phase.WATCH)[0]
    assert [] == turn.taken_s
    assert turn.released_s[0] < first_look.t_s + LOOK_EVERY_S < HOUR_S


def test_a_change_is_answered_once_the_turn_has_come() -> None:
    """Step times change while another job searches: the check waits, training goes on, and the change is remembered."""
    target = ChangingTarget(late_optimum)
    turn = TimedTurn(target, held_until_s=CHANGE_S + HOUR_S)

    job = tune_for(target, hours=(CHANGE_S + 4 * HOUR_S) / HOUR_S, turn=turn)

    assert turn.refused > 10
    assert turn.taken_s[0] >= CHANGE_S + HOUR_S
    assert 2 <= len(job.runs)
    assert turn.released_s[1] > turn.taken_s[0]
