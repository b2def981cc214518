# SPDX-License-Identifier: Apache-2.0
"""Rank 0's tuning thread: with a job that is tuned, one that fails, and one that never returns."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from ringtune.system.console import Console
from ringtune.tuner import Question, Result, RunSettings, Trial, make_designer
from ringtune.tuner.testing import SyntheticTarget
from ringtune.tuning.job import thread as thread_module
from ringtune.tuning.job import waiting
from ringtune.tuning.job.memory import Memory
from ringtune.tuning.job.thread import Surroundings, TuningThread
from ringtune.tuning.job.tuning_end import TuningEnd
from ringtune.tuning.job.waiting import Standby
from tests.unit.tuner.recording import ClosedObserver, RecordingLog


@dataclass
class ClosedLog(RecordingLog):
    """Counts how often it is closed."""

    closed: int = 0

    def close(self) -> None:
        """Count."""
        self.closed += 1


@dataclass
class ScriptedJob:
    """A job on a synthetic target that is over after its first decision.

    Attributes:
        closing: Set when the job ends.
        can_begin: Result of `begin`.
        error: Raised instead of a question; None asks one.
        calls: Names of the calls that came, in order.
    """

    closing: threading.Event
    can_begin: bool = True
    error: Exception | None = None
    calls: list[str] = field(default_factory=list)

    def begin(self, warn: Callable[[str], None]) -> bool:
        """Begin, or warn of the obstacle."""
        if not self.can_begin:
            warn("nothing can act")
        return self.can_begin

    def question(self, earlier: Sequence[Trial]) -> Question:
        """Ask for a short search."""
        assert not earlier
        if self.error is not None:
            raise self.error
        target = SyntheticTarget(seed=1)
        return Question(target, make_designer("random", target.space(), 1), RunSettings(max_samples=2, warmup_steps=0))

    def standby(self) -> Standby:
        """Train on without a search."""
        self.calls.append("standby")
        return Standby(SyntheticTarget(seed=1), {})

    def rest(self, seconds: float) -> None:
        """End the job instead of waiting."""
        del seconds
        raise RuntimeError("the job is over")

    def decided(self, result: Result) -> None:
        """Note the call."""
        assert result.is_complete
        self.calls.append("decided")

    def ended(self) -> None:
        """Note the call."""
        self.calls.append("ended")


@dataclass
class World:
    """Everything around the job of a test."""

    log: ClosedLog = field(default_factory=ClosedLog)
    observer: ClosedObserver = field(default_factory=ClosedObserver)
    warnings: list[str] = field(default_factory=list)
    closing: TuningEnd = field(default_factory=TuningEnd)

    def thread(self, job: ScriptedJob) -> TuningThread:
        """Return the thread that tunes a job here."""
        return TuningThread(job, self.around())

    def around(self) -> Surroundings:
        """Return all that is around the job."""
        memory = Memory(None, Console(0))
        return Surroundings((self.log,), (self.observer,), memory, self.warnings.append, self.closing)


def test_a_job_is_tuned_to_its_decision() -> None:
    """The ranks hear of the decision and of the end; sinks and observers get everything and are closed."""
    world = World()
    job = ScriptedJob(world.closing)
    thread = world.thread(job)

    thread.run()
    thread.stop()

    assert ["decided", "ended"] == job.calls
    assert thread.result is not None
    assert [thread.result] == world.observer.results
    assert world.log.records
    assert world.log.closed >= 1
    assert 1 == world.observer.closed


def test_a_job_that_cannot_begin_is_not_asked() -> None:
    """The warning reaches the observers; the ranks hear that no config is tried."""
    world = World()
    job = ScriptedJob(world.closing, can_begin=False)

    world.thread(job).run()

    assert ["nothing can act"] == world.observer.warnings
    assert ["ended"] == job.calls
    assert [] == world.log.records


def test_a_job_that_fails_costs_one_warning() -> None:
    """Training goes on: no error is raised, the ranks hear of the end, and the sinks are closed."""
    world = World()
    job = ScriptedJob(world.closing, error=ZeroDivisionError("a defect"))

    world.thread(job).run()

    assert ["the tuner failed and stays off: ZeroDivisionError('a defect'); training goes on"] == world.warnings
    assert ["ended"] == job.calls
    assert (1, 1) == (world.log.closed, world.observer.closed)


@dataclass
class NextTurn:
    """A turn that comes at the third attempt.

    Attributes:
        calls: Names of the calls and of the job's, in order.
    """

    calls: list[str]
    attempts: int = 0

    def try_take(self) -> bool:
        """Return whether it has come."""
        self.attempts += 1
        return self.attempts >= 3

    def release(self) -> None:
        """Note the call."""
        self.calls.append("released")


def test_a_job_waits_for_its_turn_and_gives_it_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The job stands by meanwhile and says so, and the ranks hear of the decision before others have the turn."""
    monkeypatch.setattr(waiting, "POLL_S", 0.001)
    world = World()
    job = ScriptedJob(world.closing)
    around = replace(world.around(), turn=NextTurn(job.calls), holder=lambda: "another job")

    TuningThread(job, around).run()

    assert ["standby", "decided", "released"] == job.calls[:3]
    assert "another job is tuning; this one waits its turn, training with the default" == world.observer.waits[0]
    assert 2 == len(world.observer.waits)


def test_a_job_that_ends_while_it_waits_was_not_tuned() -> None:
    """Its log stays empty, and the turn is given up for good."""
    world = World()
    job = ScriptedJob(world.closing)
    world.closing.set()

    TuningThread(job, replace(world.around(), turn=NextTurn(job.calls))).run()

    assert ["standby", "ended", "released"] == job.calls
    assert [] == world.log.records


def test_a_thread_that_does_not_end_is_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """`stop` waits for a bounded time, and leaves the log to the thread, which closes it in the end."""
    monkeypatch.setattr(thread_module, "STOP_LIMIT_S", 0.05)
    world, release = World(), threading.Event()

    class StuckJob(ScriptedJob):
        def begin(self, warn: Callable[[str], None]) -> bool:
            del warn
            release.wait()
            return False

    thread = world.thread(StuckJob(world.closing))
    thread.start()
    thread.stop()
    closed_while_stuck = world.log.closed
    release.set()
    thread._thread.join()

    assert world.closing.is_set()
    assert 0 == closed_while_stuck
    assert 1 == world.log.closed
