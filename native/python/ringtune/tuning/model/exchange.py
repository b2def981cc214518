# SPDX-License-Identifier: Apache-2.0
"""Exchange between rank 0's tuning thread and its training thread: wishes one way, ends of steps the other."""

import queue
import threading
from contextlib import suppress
from dataclasses import dataclass, replace

from ringtune.tuner import TargetClosed
from ringtune.tuning.job.tuning_end import TuningEnd
from ringtune.tuning.job.windows import StepEnd

from .live_model import NO_LIMIT, Words

POLL_S = 0.1  # longest delay until the end of the job is noticed, seconds; a step is handed over at once
MOST_UNREAD_STEPS = 1_000
"""Unread steps that are kept; later ones are lost, and the window at hand begins again."""


@dataclass(frozen=True)
class Wish:
    """The tuner's order to the training threads.

    Attributes:
        epoch: Number of changes of `words` so far.
        words: Settings to switch to.
        is_decision: True for a decision, which is only watched; false for a trial.
        is_last: True where no other wish follows.
    """

    epoch: int
    words: Words
    is_decision: bool = False
    is_last: bool = False


class MemoryNews:
    """News of the ranks' memory from the training thread, round by round; safe to use from any thread."""

    def __init__(self, baseline: Words) -> None:
        """Begin with the settings that training begins with, before the first news."""
        self._baseline = baseline
        self._refused: frozenset[int] = frozenset()
        self._known = threading.Event()
        self.checked_step = 0
        """Latest step whose peak is known from all ranks."""
        self.room_bytes = NO_LIMIT
        """Least room that any rank has had under the settings that training began with."""

    def note(self, step: int, words: Words, room_bytes: int) -> None:
        """Take the least room of any rank, bytes, at a step under settings."""
        if words == self._baseline:
            self.room_bytes = min(self.room_bytes, room_bytes)
        self.checked_step = step
        self._known.set()

    def refuse(self, epoch: int) -> None:
        """Note that the settings of an epoch need more memory than there is, and are in force no longer."""
        self._refused |= {epoch}

    def is_refused(self, epoch: int) -> bool:
        """Return whether an epoch was refused."""
        return epoch in self._refused

    def wait(self, seconds: float) -> bool:
        """Wait for the first news; return whether it is there."""
        return self._known.wait(seconds)


class Exchange:
    """Carries wishes to the training thread and ends of steps back; used from any thread."""

    def __init__(self, words: Words, closing: TuningEnd | None = None) -> None:
        """Begin with the settings in force, as epoch 0.

        Args:
            words: The settings.
            closing: End of the job's tuning, where others wait for it, too.
        """
        self._lock = threading.Lock()  # guards _wish
        self._wish = Wish(0, words)
        self._ends: queue.Queue[StepEnd] = queue.Queue(MOST_UNREAD_STEPS)
        self._memory = MemoryNews(words)
        self.closing = closing or TuningEnd()
        """Set when tuning is over: the job has ended, or the ranks have ended tuning for a reason."""

    @property
    def memory(self) -> MemoryNews:
        """News of the ranks' memory."""
        return self._memory

    @property
    def wish(self) -> Wish:
        """The latest wish."""
        with self._lock:
            return self._wish

    def ask(self, words: Words) -> int:
        """Wish for settings; return their epoch, the latest one where they are the latest wish already."""
        with self._lock:
            if words != self._wish.words:
                self._wish = Wish(self._wish.epoch + 1, words)
            return self._wish.epoch

    def settle(self) -> None:
        """Make the latest wish a decision, until another is asked for."""
        with self._lock:
            self._wish = replace(self._wish, is_decision=True)

    def rest(self, seconds: float) -> None:
        """Settle, and wait for so many seconds, less when tuning ends."""
        self.settle()
        self.closing.wait(seconds)

    def end(self) -> None:
        """Make the latest wish the last one."""
        with self._lock:
            self._wish = replace(self._wish, is_last=True)

    def put(self, end: StepEnd) -> None:
        """Hand over the end of a step, unless too many wait; never blocks."""
        with suppress(queue.Full):
            self._ends.put_nowait(end)

    def forget_ends(self) -> None:
        """Drop the ends of steps that were not read."""
        with suppress(queue.Empty):
            while True:
                self._ends.get_nowait()

    def next_end(self) -> StepEnd:
        """Wait for the end of a step.

        Raises:
            TargetClosed: If tuning is over.
        """
        while True:
            self.check_open()
            with suppress(queue.Empty):
                return self._ends.get(timeout=POLL_S)

    def check_open(self) -> None:
        """Raise TargetClosed if tuning is over."""
        if self.closing.is_set():
            raise TargetClosed(self.closing.reason or "the job is over")
