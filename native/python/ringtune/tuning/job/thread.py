# SPDX-License-Identifier: Apache-2.0
"""Rank 0's tuning thread: runs `ContinuousTuning` beside training, which it never fails and never holds up."""

import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Protocol

from ringtune.tuner import ContinuousTuning, Question, Result, Trial, TuningLog
from ringtune.tuner.policy.turn import FreeTurn, Turn

from .host_lock import ANOTHER_JOB
from .kept_run import KeptRun
from .log_sinks import LogSinks
from .memory import Memory
from .observers import JobObserver, Observers
from .tuning_end import TuningEnd
from .waiting import Standby, TurnWait

STOP_LIMIT_S = 2.0
"""Longest wait for the tuning thread at the end of the job, seconds; a designer may be in the middle of a fit."""


class TuningJob(Protocol):
    """A training job that can be tuned: the engine's, or a DDP model. Called from the tuning thread alone."""

    def begin(self, warn: Callable[[str], None]) -> bool:
        """Wait until the job can be tuned; return whether it can, after a warning with the cause if it cannot."""

    def question(self, earlier: Sequence[Trial]) -> Question:
        """Return the question of a search in the job as it is now; `earlier` are the trials of its search before."""

    def standby(self) -> Standby:
        """Return the target and key for training well while another job tunes; called after `begin`."""

    def rest(self, seconds: float) -> object:
        """Wait for so many seconds, less when the job ends."""

    def decided(self, result: Result) -> None:
        """Let all ranks know that a decision is in force."""

    def ended(self) -> None:
        """Let all ranks know that no more configs are tried; called once, after any failure too."""


@dataclass(frozen=True)
class Surroundings:
    """Everything around a tuning job that is not the job.

    Attributes:
        sinks: Take every record, in this order; closed at the end.
        observers: See progress, verdicts and warnings; closed at the end.
        memory: Earlier runs of this machine, and where this job's go.
        warn: Shows a warning to people.
        closing: Set when tuning is over.
        turn: The job's turn among those of its hosts.
        holder: Returns the name of the job whose turn it is, for people.
        trained_s: Time for which the job has trained before it can be tuned, seconds.
    """

    sinks: Sequence[TuningLog]
    observers: Sequence[JobObserver]
    memory: Memory
    warn: Callable[[str], None]
    closing: TuningEnd
    turn: Turn = field(default_factory=FreeTurn)
    holder: Callable[[], str] = lambda: ANOTHER_JOB
    trained_s: float = 0.0


class TuningThread:
    """Tunes one job: `start()`, or `run()` in the calling thread; then `stop()`.

    Attributes:
        result: The last decision; None before the first.
    """

    def __init__(self, job: TuningJob, around: Surroundings) -> None:
        """Prepare; the first measurement waits for `start` or `run`."""
        self._job = job
        self._around = around
        self._kept = KeptRun(around.memory)
        self._log = LogSinks([self._kept, *around.sinks])
        # A daemon: training may end without `stop`, and a stuck designer must not keep the process alive.
        self._thread = threading.Thread(target=self.run, name="ringtune-tuning", daemon=True)
        self.result: Result | None = None

    def start(self) -> None:
        """Run in the thread."""
        self._thread.start()

    def run(self) -> None:
        """Tune, and watch the decision, to the end of the job; never raises."""
        around = self._around
        try:
            with closing(Observers(around.observers, around.warn)) as observers:
                turn = TurnWait(around.turn, around.memory, observers, around.closing)
                if self._job.begin(observers.warned) and turn.wait(self._job.standby, around.holder):
                    self._tune(observers)
        except Exception as error:  # noqa: BLE001  (tuning never fails training)
            around.warn(f"the tuner failed and stays off: {error!r}; training goes on")
        finally:
            self._job.ended()
            self._log.close()  # `stop` does not wait for a thread that is deep in a fit
            around.turn.release()

    def stop(self) -> None:
        """End tuning and close the sinks; a thread that does not end in time is left behind. Never raises."""
        self._around.closing.set()
        if self._thread.is_alive():
            self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            self._kept.close()
            self._around.turn.release()
        else:
            self._log.close()

    def _tune(self, observers: Observers) -> None:
        ContinuousTuning(
            self._job.question,
            self._log,
            observers,
            rest=self._job.rest,
            on_decision=self._take_decision,
            is_over=self._around.closing.is_set,
            end_reason=lambda: self._around.closing.reason,
            turn=self._around.turn,
            trained_s=self._around.trained_s,
        ).run()

    def _take_decision(self, result: Result) -> None:
        self.result = result
        self._job.decided(result)  # first: no rank waits for a disk
        self._kept.decided()
