# SPDX-License-Identifier: Apache-2.0
"""A job's wait for its turn: it trains under the best known config meanwhile, and says so."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from ringtune.tuner import Config, Target, TargetClosed, readable_changes
from ringtune.tuner.policy.turn import Turn

from .memory import Memory
from .tuning_end import TuningEnd

POLL_S = 0.5  # interval between two attempts, seconds: little beside a search, and cheap


@dataclass(frozen=True)
class Standby:
    """A job that trains without a search: the way to set its config, and its key.

    Attributes:
        target: Takes the config.
        key: Key of the job's study.
    """

    target: Target
    key: Mapping[str, Any]


class People(Protocol):
    """The part of the observers that hears of a wait."""

    def waiting(self, text: str) -> None:
        """Show that the job waits for its turn, or that it has come."""

    def warned(self, text: str) -> None:
        """Show a line that stays."""


class TurnWait:
    """Waits for a turn; for single use, in the tuning thread."""

    def __init__(self, turn: Turn, memory: Memory, people: People, closing: TuningEnd) -> None:
        """Prepare.

        Args:
            turn: The job's.
            memory: Earlier runs of this machine.
            people: Hear of the job's waiting and of its config meanwhile.
            closing: Set when tuning is over.
        """
        self._turn = turn
        self._memory = memory
        self._people = people
        self._closing = closing
        self._in_force: Config | None = None
        self._known = "the default"

    def wait(self, standby: Callable[[], Standby], holder: Callable[[], str]) -> bool:
        """Return whether the turn has come; false at the end of the job.

        Args:
            standby: Called once if another job tunes.
            holder: Name of the job whose turn it is, for people.
        """
        if self._turn.try_take():
            return True
        began_s, idle = time.monotonic(), standby()
        if not idle.target.space().free:
            return True  # the run ends before it measures anything
        tuning = holder()
        self._train_best_known(idle, tuning)
        while not self._closing.wait(POLL_S):
            if self._turn.try_take():
                self._people.waiting(
                    f"the turn of this job has come after {time.monotonic() - began_s:.0f} s; it tunes now"
                )
                return True
            if holder() != tuning:  # the job before may have decided
                tuning = holder()
                self._train_best_known(idle, tuning)
        if not self._closing.reason:
            waited = f"the turn of this job never came in {time.monotonic() - began_s:.0f} s, for {tuning} was tuning"
            self._people.warned(f"{waited}; it was not tuned, and has trained with {self._known}")
        return False

    def _train_best_known(self, idle: Standby, holder: str) -> None:
        """Bring in force the config that an earlier run has adopted, or else the default, and say so if it is new."""
        baseline = idle.target.baseline()
        adopted = self._memory.adopted(idle.key, idle.target.space(), baseline)
        config = baseline if adopted is None else adopted
        if config == self._in_force:
            return
        try:
            idle.target.apply(config)
        except TargetClosed:
            return
        self._in_force = config
        if adopted is not None:
            self._known = f"what an earlier run has adopted: {readable_changes(baseline, config) or 'the default'}"
        self._people.waiting(f"{holder} is tuning; this one waits its turn, training with {self._known}")
