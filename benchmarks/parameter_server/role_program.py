# SPDX-License-Identifier: Apache-2.0
"""Parts of a trial: a worker that trains and measures, and a server that serves until the workers are done."""

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Protocol

from torch import Tensor

from .allreduce_ways import DdpWay, RingtuneWay
from .interface_counters import interface_bytes
from .meeting import Meeting
from .server_way import ServerRole, ServerWay
from .student import Batch, Student
from .trial import ASYNC, DDP, RINGTUNE, SERVER, SYNC, Role

WARM_UP_STEPS = 3
"""Steps at a learning rate of 0 before the start: connections are open, DDP has its buckets."""
MARKS = 10
"""Points of a loss curve behind the first."""


@dataclass
class Measured:
    """Measurements of a process.

    Attributes:
        sent: Bytes that its host's interface sent, headers included.
        received: Bytes that it received.
        ends_s: End of each step, seconds since the common start.
        staleness: Mean number of gradients that its own had missed.
        curve: Seconds, gradients applied, and mean loss over all data, point by point; worker 0's.
    """

    sent: int = 0
    received: int = 0
    ends_s: list[float] = field(default_factory=list)
    staleness: float = 0.0
    curve: list[tuple[float, int, float]] = field(default_factory=list)


class Way(Protocol):
    """A worker's training by one way."""

    staleness: list[int]

    def step(self, batch: Batch, rate: float) -> int:
        """Do a step; return how many gradients are in the parameters."""

    def close(self) -> None:
        """Leave."""


WAYS: Mapping[str, Callable[[Role, Student], Way]] = {
    SYNC: ServerWay,
    ASYNC: ServerWay,
    DDP: DdpWay,
    RINGTUNE: RingtuneWay,
}


def run(role: Role) -> None:
    """Take part in a trial, and write what was measured."""
    measured = serve(role) if role.kind == SERVER else work(role)
    role.result.write_text(json.dumps(asdict(measured)), encoding="ascii")


def serve(role: Role) -> Measured:
    """Serve until all workers are done."""
    server = ServerRole(role)
    meeting = Meeting(role)
    meeting.start()
    before = interface_bytes(role.interface)
    meeting.await_workers()
    after = interface_bytes(role.interface)
    server.close()
    return Measured(sent=after[0] - before[0], received=after[1] - before[1])


def work(role: Role) -> Measured:
    """Train for the trial's time."""
    student = Student(role.trial, role.number)
    way = WAYS[role.trial.way](role, student)
    batches = student.batches()
    for _ in range(WARM_UP_STEPS):
        way.step(next(batches), 0.0)
    meeting = Meeting(role)
    begin_s = meeting.start()
    before = interface_bytes(role.interface)
    measured, snapshots = _train(role, student, way, meeting, begin_s)
    after = interface_bytes(role.interface)
    meeting.leave()
    meeting.await_workers()
    way.close()
    measured.sent, measured.received = after[0] - before[0], after[1] - before[1]
    measured.curve = [(seconds, gradients, student.loss_at(each)) for seconds, gradients, each in snapshots]
    return measured


def _train(
    role: Role, student: Student, way: Way, meeting: Meeting, begin_s: float
) -> tuple[Measured, list[tuple[float, int, Tensor]]]:
    """Step until worker 0's clock ends it; return the measurements, and worker 0's parameters on the way."""
    trial, leads = role.trial, role.number == 0
    measured = Measured()
    unused = WARM_UP_STEPS * trial.workers
    snapshots = [(0.0, 0, student.parameters())] if leads else []
    way.staleness.clear()
    batches = student.batches()
    wait_s = trial.compute_s(role.number)
    is_ending = False
    while not meeting.is_over(len(measured.ends_s)):
        time.sleep(wait_s)
        applied = way.step(next(batches), trial.learning_rate)
        now_s = time.monotonic() - begin_s
        measured.ends_s.append(now_s)
        if not leads:
            continue
        if now_s >= len(snapshots) * trial.seconds / MARKS:
            snapshots.append((now_s, applied - unused, student.parameters()))
        if now_s >= trial.seconds and not is_ending:
            is_ending = True
            # Synchronous workers are one step behind at most; asynchronous ones end with the step that they are in.
            meeting.end_after(0 if trial.is_asynchronous else len(measured.ends_s) + 1)
    measured.staleness = sum(way.staleness) / max(1, len(way.staleness))
    return measured, snapshots
