# SPDX-License-Identifier: Apache-2.0
"""Course of an elastic job: which ends of workers it survives, when it is over, and with which exit code. Pure.

A job goes on after a loss as long as its hosts may bring enough workers in time. It ends well when a worker has done
its work and none runs any more. It fails when there are too few workers for too long, when its number of resets is
used up, or when its program fails by its own doing on all workers: on those of one world, or, without a newer commit
in between, on as many as a world has.
"""

from collections.abc import Sequence

from ringtune.launch.ending import NEVER_S, Ending

from .crew import CrewMember, Fate
from .own_failures import OwnFailures
from .sizes import WorldLimits

GENERAL_FAILURE = 1


class Course(Ending):
    """State of a job. Times are seconds on one clock.

    Attributes:
        failure: Reason why the job has failed, a clause; empty while it has not.
        has_done: Whether a worker has done its work.
    """

    def __init__(self, limits: WorldLimits, now_s: float) -> None:
        super().__init__()
        self._limits = limits
        self._code = 0
        self._losses: list[CrewMember] = []  # since the latest meeting
        self._unjudged: list[CrewMember] = []  # losses that `judge` has not seen
        self._own_failures = OwnFailures()
        self._latest: set[int] = set()
        self._short_since_s: float | None = now_s
        self.failure = ""
        self.has_done = False
        self._runs_any = False

    @property
    def is_complete(self) -> bool:
        """True if no worker runs and none will be started."""
        return self.is_ending and not self._runs_any

    @property
    def is_ending(self) -> bool:
        """True if no worker is started any more."""
        return bool(self.has_done or self.failure or self.received_signal)

    def exit_code(self) -> int:
        """Return the job's exit code."""
        return 128 + self.received_signal if self.received_signal else self._code

    def note_meeting(self, members: Sequence[CrewMember]) -> None:
        """Take the workers of a meeting, and forget the losses before it: these have gone on without them."""
        self._own_failures.note_survivors([member.progress for member in members if self.is_in_latest(member)])
        self._losses.clear()
        self._latest = {member.number for member in members}

    def is_in_latest(self, member: CrewMember) -> bool:
        """Return whether a worker takes part in the latest meeting."""
        return member.number in self._latest

    def note_end(self, member: CrewMember, fate: Fate) -> None:
        """Take the end of a worker."""
        if fate is Fate.DONE:
            self.has_done = True
        elif fate is Fate.LOST:
            self._losses.append(member)
            self._unjudged.append(member)

    def fail(self, reason: str, code: int, now_s: float) -> None:
        """End the job; the first reason holds."""
        if not self.failure and not self.received_signal:
            self.failure, self._code = reason, code
            self.begin(now_s)

    def judge(self, running: Sequence[CrewMember], staffed: int, now_s: float) -> None:
        """Decide whether the job goes on.

        Args:
            running: Workers whose processes run.
            staffed: Number of them that are meant to go on.
            now_s: The time.
        """
        self._runs_any = bool(running)
        self._count_own_failures(running)
        if self.failure or self.received_signal:
            return
        if self.has_done:
            if not running:
                self._judge_last_ends()
        elif (own_doing := self._own_doing(running)) is not None:
            self.fail(*own_doing, now_s)
        else:
            self._judge_number(staffed, now_s)

    def _own_doing(self, running: Sequence[CrewMember]) -> tuple[str, int] | None:
        """Return how the program has failed on all workers, and the code of the first; None while it has not."""
        if not running and self._losses and all(member.ended_itself for member in self._losses):
            return _own_doing(self._losses)
        if not self._own_failures.are_enough:
            return None
        reason, code = _own_doing(self._own_failures.members)
        between = ", with no newer commit in between" if len(self._own_failures) > 1 else ""
        return f"{reason}{between}", code

    def _count_own_failures(self, running: Sequence[CrewMember]) -> None:
        """Count the new losses that are the program's own doing; a newcomer that cannot join a world is no evidence."""
        has_world = any(self.is_in_latest(member) for member in running)
        for member in self._unjudged:
            if member.ended_itself and (member.meeting is not None or not has_world):
                size = member.world_size or len(self._latest) or self._limits.first_workers
                has_survivors = has_world and self.is_in_latest(member)  # who will tell the place as they meet
                self._own_failures.note(member, size, has_survivors=has_survivors)
        self._unjudged.clear()

    def _judge_number(self, staffed: int, now_s: float) -> None:
        """Fail a job that has had too few workers for too long."""
        if staffed >= self._limits.min_workers:
            self._short_since_s = None
            return
        self._short_since_s = now_s if self._short_since_s is None else self._short_since_s
        if now_s >= self._short_since_s + self._limits.elastic_s:
            self.fail(
                f"for {self._limits.elastic_s:g} s there were fewer than {self._limits.min_workers} workers (now "
                f"{staffed}); see --elastic-timeout and --min-np",
                GENERAL_FAILURE,
                now_s,
            )

    def next_look_s(self) -> float:
        """Return when `judge` is due without another change; infinity: never."""
        return (
            NEVER_S if self._short_since_s is None or self.is_ending else self._short_since_s + self._limits.elastic_s
        )

    def _judge_last_ends(self) -> None:
        """Fail a job of which one worker has done its work and another has failed at its end."""
        failed = [member for member in self._losses if member.ended_itself and self.is_in_latest(member)]
        if failed:
            reason, code = _own_doing(failed)
            self.failure, self._code = f"others have done their work, but {reason}", code


def _own_doing(members: Sequence[CrewMember]) -> tuple[str, int]:
    """Return how workers that ended by themselves failed, and the code of the first."""
    first = min(members, key=lambda member: member.exit_s)
    assert first.exit is not None
    others = len(members) - 1
    rest = f", and {others} other worker{'s' if others > 1 else ''} after it" if others else ""
    return f"{describe_loss(first)}{rest}", first.exit.code or GENERAL_FAILURE


def describe_loss(member: CrewMember) -> str:
    """Return a lost worker and how it ended, in words."""
    assert member.exit is not None
    if member.exit.code == 0:
        when = "before it had called init()" if member.arrival is None else "without having said that its work is done"
        return f"{member} exited with code 0 {when}"
    return f"{member} {member.exit.description}" + f" ({member.failure})" * bool(member.failure)
