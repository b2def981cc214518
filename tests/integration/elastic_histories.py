# SPDX-License-Identifier: Apache-2.0
"""Random histories of elastic jobs: workers are killed, stopped, added, taken out and flap while they train.

`python -m tests.integration.elastic_histories --count 200` runs histories of consecutive seeds and prints a table.
"""

import json
import random
import signal
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from ringtune.meeting.rendezvous.roster import RangeRoster
from ringtune.meeting.rendezvous.server import Patience
from tests.integration.elastic_table import Struck, run_histories
from tests.integration.forked_ranks import ForkedProcess
from tests.integration.jobs import Finished, JobOf, forked, started_by_fork
from tests.integration.rendezvous_servers import Served, joining, served

MAX_WORKERS = 6
EPOCHS = 8
STEP_MS = 15.0
QUIET_S = 0.5  # the first meeting begins when no worker has come for so long
LIMIT_S = 6.0  # time limit of a collective: a stopped worker costs as much, and a busy machine must not exceed it
GRACE_S = 4.0
DEADLINE_S = 120.0  # time limit of a history; a job that is not through by then hangs
KINDS = ("kill", "kill two", "kill rank 0", "stop", "add", "add two", "take out", "flap")


def tuning(folder: Path) -> dict[str, str]:
    """Return the variables of a job that tunes itself, with a log and a cache that all its worlds share."""
    return {
        "AUTOTUNE": "1",
        "AUTOTUNE_LOG": str(folder / "tuning.jsonl"),
        "AUTOTUNE_CACHE": str(folder / "studies.jsonl"),
        "AUTOTUNE_WARMUP_STEPS": "2",
        "AUTOTUNE_STEPS_PER_SAMPLE": "3",
    }


@dataclass(frozen=True)
class Event:
    """An event of a history.

    Attributes:
        kind: One of `KINDS`.
        steps: Number of steps that rank 0 has trained when it happens.
    """

    kind: str
    steps: int


@dataclass(frozen=True)
class History:
    """A job and its events, drawn from a seed.

    Attributes:
        seed: The seed.
        workers: Number of workers at the begin.
        events: Events in their order.
        is_tuned: Whether the job tunes itself.
    """

    seed: int
    workers: int
    events: tuple[Event, ...]
    is_tuned: bool

    @classmethod
    def drawn(cls, seed: int) -> "History":
        """Return the history of a seed; consecutive seeds begin with each kind of event in turn."""
        drawn = random.Random(seed)
        kinds = [KINDS[seed % len(KINDS)], *drawn.choices(KINDS, k=drawn.randint(1, 4))]
        steps = sorted(drawn.sample(range(2, 30), len(kinds)))
        events = tuple(Event(kind, step) for kind, step in zip(kinds, steps, strict=True))
        return cls(seed, drawn.randint(1, MAX_WORKERS - 1), events, seed % 3 == 0)

    def __str__(self) -> str:
        tuned = ", tuned" if self.is_tuned else ""
        return f"{self.workers} workers{tuned}: " + ", ".join(f"{event.kind} @{event.steps}" for event in self.events)


@dataclass(frozen=True)
class Outcome:
    """The end of a history.

    Attributes:
        seconds: Time that it took.
        finished: Number of workers that trained to the end.
        steps: Number of steps that were committed.
        worlds: Sizes of the worlds that trained, one after the other.
    """

    seconds: float
    finished: int
    steps: int
    worlds: tuple[int, ...]


Worker = JobOf[ForkedProcess]


@dataclass
class Run:
    """A history under way."""

    server: Served
    start: Callable[[], Worker]
    steps: Path
    drawn: random.Random
    struck: list[Struck]
    workers: list[Worker] = field(default_factory=list)
    gone: list[Worker] = field(default_factory=list)  # those that need not train to the end
    dismissed: list[Worker] = field(default_factory=list)
    end_s: float = 0.0

    def count(self) -> int:
        """Return the number of steps that rank 0 has trained, those that were undone included."""
        return self.steps.stat().st_size if self.steps.exists() else 0

    def wait_until(self, is_reached: Callable[[], bool]) -> bool:
        """Wait for a condition; return False if the job ends before, a stopped worker aside."""
        while not is_reached():
            if all(worker.process.poll() is not None for worker in self.stayed()):
                return False
            assert time.monotonic() < self.end_s, f"no progress after {self.count()} steps\n{self.texts()}"
            time.sleep(0.005)
        return True

    def stayed(self) -> list[Worker]:
        """Return the workers that are to train to the end."""
        return [worker for worker in self.workers if worker not in self.gone]

    def texts(self) -> str:
        """Let every worker print where it is and end; return their outputs."""
        for worker in self.workers:
            worker.process.send_signal(signal.SIGCONT)
            worker.process.send_signal(signal.SIGABRT)
        ends = [f"pid {worker.process.pid}: {worker.wait(DEADLINE_S).text}" for worker in self.workers]
        return "\n".join(ends)

    def members(self) -> list[Worker]:
        """Return the workers that train, in the order of their ranks."""
        by_pid = {worker.process.pid: worker for worker in self.workers if worker.process.poll() is None}
        met = sorted((one for one in self.server.workers() if one.rank is not None), key=lambda one: one.rank or 0)
        return [by_pid[one.pid] for one in met if one.pid in by_pid and by_pid[one.pid] not in self.gone]

    def strike(self, kind: str) -> None:
        """Let an event happen, if it leaves a worker that has the state."""
        members, now_s = self.members(), time.monotonic()
        is_first = "0" in kind
        victims = members[:1] if is_first else self.drawn.sample(members, min(len(members), 1 + ("two" in kind)))
        if kind.startswith("add"):
            self._add(min(1 + ("two" in kind), MAX_WORKERS - len(members)))
        elif kind == "flap":
            self._flap()
        elif len(victims) < len(members):
            self._hit(kind, victims)
        else:
            return
        self.struck.append(Struck(kind, now_s))

    def _add(self, count: int) -> None:
        self.workers += [self.start() for _ in range(count)]

    def _flap(self) -> None:
        """Add a worker and kill it somewhere between its start and its first steps."""
        worker = self.start()
        self.gone.append(worker)
        self.workers.append(worker)
        time.sleep(self.drawn.uniform(0.0, 1.0))
        worker.process.kill()

    def _hit(self, kind: str, victims: list[Worker]) -> None:
        self.gone += victims
        for victim in victims:
            if kind == "take out":
                self.dismissed.append(victim)
                self.server.dismiss_process(victim.process.pid)
            else:
                victim.process.send_signal(signal.SIGSTOP if kind == "stop" else signal.SIGKILL)


def run_history(history: History, folder: Path, struck: list[Struck]) -> Outcome:
    """Run a history to its end, and check the end of each worker.

    Args:
        history: The history.
        folder: Folder for the files of its job.
        struck: Takes the events that take place; one that would leave no worker with the state is left out.

    Raises:
        AssertionError: If a worker hangs or fails, or the workers end with different weights.
    """
    begin_s = time.monotonic()
    patience = Patience(meeting_s=DEADLINE_S, grace_s=GRACE_S)
    command = forked("elastic_worker", str(folder), str(EPOCHS), str(STEP_MS))
    with served(RangeRoster(1, MAX_WORKERS, QUIET_S), patience=patience) as server, ExitStack() as stack:
        environ = joining(
            server.address, RINGTUNE_TIMEOUT_S=str(LIMIT_S), **(tuning(folder) if history.is_tuned else {})
        )

        def start() -> Worker:
            return stack.enter_context(started_by_fork(command, environ))

        run = Run(server, start, folder / "steps", random.Random(history.seed), struck, end_s=begin_s + DEADLINE_S)
        run.workers += [start() for _ in range(history.workers)]
        for event in history.events:
            if not run.wait_until(lambda steps=event.steps: run.count() >= steps):  # type: ignore[misc]
                break
            run.strike(event.kind)
        run.wait_until(lambda: False)
        ends = [worker.wait() for worker in run.stayed()]
        left = [worker.wait() for worker in run.dismissed]
        assert all(end.code == 0 for end in left), "\n".join(end.text for end in left)
        for worker in run.gone:
            worker.kill()
    return _outcome(run, ends, time.monotonic() - begin_s)


def _outcome(run: Run, ends: list[Finished], seconds: float) -> Outcome:
    assert all(end.code == 0 for end in ends), "\n".join(end.text for end in ends)
    reports = [json.loads(end.stdout.splitlines()[-1]) for end in ends if end.stdout]
    assert reports, "\n".join(end.text for end in ends)
    assert 1 == len({report["digest"] for report in reports}), "\n".join(end.text for end in ends)
    return Outcome(seconds, len(reports), reports[0]["steps"], tuple(reports[0]["worlds"]))


def play(seed: int, folder: Path, struck: list[Struck]) -> str:
    """Run the history of a seed; return its line of the table."""
    history = History.drawn(seed)
    outcome = run_history(history, folder, struck)
    worlds = " ".join(map(str, outcome.worlds))
    return f"{outcome.seconds:5.1f} s  {outcome.steps:3d} steps  {worlds:24s} {history}"


if __name__ == "__main__":
    sys.exit(run_histories(__doc__, play, count=200))
