# SPDX-License-Identifier: Apache-2.0
"""End of a job: which rank is blamed, and when the others are asked, then killed. Pure but for the clock.

The first rank that fails decides the exit code. The others get a moment to end by themselves, for the engine tells
them within two seconds; then they are asked, then killed.
"""

import signal
from abc import ABC, abstractmethod
from collections.abc import Iterable

from .processes import RankExit

SELF_END_S = 5.0  # survivors of a failed rank end by themselves: they get PeerLostError within 2 s
TERM_S = 10.0  # time between SIGTERM, or the user's signal, and SIGKILL
GIVE_UP_S = 10.0  # time between SIGKILL and giving up hosts that do not confirm it
NEVER_S = float("inf")


class Ending(ABC):
    """Steps of a job's end and the times when they are due. Times are seconds on one clock."""

    def __init__(self) -> None:
        self._term_at_s = NEVER_S
        self._kill_at_s = NEVER_S
        self._give_up_at_s = NEVER_S
        self.received_signal = 0

    @property
    @abstractmethod
    def is_complete(self) -> bool:
        """True if no rank runs and none will be started."""

    @abstractmethod
    def exit_code(self) -> int:
        """Return the job's exit code."""

    def begin(self, now_s: float) -> None:
        """Begin to end the ranks that run: they get a moment to end by themselves."""
        self._term_at_s = min(self._term_at_s, now_s + SELF_END_S)

    def note_signal(self, number: int, now_s: float) -> int:
        """Take the user's signal; return the signal for the ranks: a second one is taken for impatience."""
        is_second = self.received_signal != 0
        self.received_signal = self.received_signal or number
        if is_second:
            self._give_up_at_s = min(self._give_up_at_s, now_s + GIVE_UP_S)
            return signal.SIGKILL
        self._kill_at_s = min(self._kill_at_s, now_s + TERM_S)
        return number

    def due_signals(self, now_s: float) -> list[int]:
        """Return the signals that are due for the ranks that run, each once."""
        due: list[int] = []
        if now_s >= self._term_at_s:
            self._term_at_s = NEVER_S
            self._kill_at_s = min(self._kill_at_s, now_s + TERM_S)
            due += [signal.SIGTERM, signal.SIGCONT]  # a stopped rank would not see the first without the second
        if now_s >= self._kill_at_s:
            self._kill_at_s = NEVER_S
            self._give_up_at_s = min(self._give_up_at_s, now_s + GIVE_UP_S)
            due.append(signal.SIGKILL)
        return due

    def gives_up(self, now_s: float) -> bool:
        """Return, once, that hosts which have not confirmed the end of their ranks are to be waited for no longer."""
        is_due = now_s >= self._give_up_at_s
        if is_due:
            self._give_up_at_s = NEVER_S
        return is_due

    def next_deadline_s(self) -> float:
        """Return when the next signal or the end is due; infinity if none is."""
        return min(self._term_at_s, self._kill_at_s, self._give_up_at_s)


class JobEnding(Ending):
    """End of a job whose number of ranks is fixed: the first failure ends it."""

    def __init__(self, world_size: int) -> None:
        super().__init__()
        self._world_size = world_size
        self._exits: dict[int, RankExit] = {}
        self.first_failure: RankExit | None = None

    @property
    def is_complete(self) -> bool:
        """True if every rank has ended."""
        return len(self._exits) == self._world_size

    @property
    def failures(self) -> int:
        """Number of ranks that have failed."""
        return sum(1 for ended in self._exits.values() if ended.code != 0)

    def note_exits(self, exits: Iterable[RankExit], now_s: float) -> None:
        """Take ranks that ended at the same time as far as anybody knows: of those a killed one is blamed first."""
        for ended in sorted(exits, key=lambda e: (not e.signal_number, bool(e.loss), e.rank)):
            self._exits[ended.rank] = ended
            if ended.code != 0 and self.first_failure is None:
                self.first_failure = ended
                self.begin(now_s)

    def exit_code(self) -> int:
        """Return the job's exit code."""
        if self.received_signal:
            return 128 + self.received_signal
        return 0 if self.first_failure is None else self.first_failure.code
