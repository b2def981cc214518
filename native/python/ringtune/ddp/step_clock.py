# SPDX-License-Identifier: Apache-2.0
"""When steps end: on the host's clock for models in CPU memory, on the device's for models on a GPU.

A host that trains on a GPU runs ahead of it: what it sees of a step is the launching. So the end of a step is an event
on the stream that the step ran on, and is read once the device has passed it, a step or more later. Nothing here waits
for the device: a step costs the host a record, a query and the reading of a time difference.
"""

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

import torch

from .windows import StepEnd

MOST_PENDING_STEPS = 64
"""Steps that the device may be behind; later ones are not timed, and the window at hand begins again."""


class DeviceEvent(Protocol):
    """What is used of `torch.cuda.Event`."""

    def record(self, stream: Any) -> None:
        """Put the event onto a stream."""

    def query(self) -> bool:
        """Return whether the device has passed it; never waits."""

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to a later one, both passed."""


class StepClock(Protocol):
    """Tells when steps end. Used from the thread that trains."""

    @property
    def name(self) -> str:
        """What is measured: `host` or `device` time."""

    def mark(self, step: int, epoch: int) -> list[StepEnd]:
        """Note that a step ends here, under a config epoch; return the ends that are known by now, in their order."""


class HostClock:
    """The host's steady clock: a step ends when it is marked."""

    name = "host"

    def mark(self, step: int, epoch: int) -> list[StepEnd]:
        """Return the end of this step."""
        return [StepEnd(step, time.monotonic(), epoch)]


class DeviceClock:
    """Events on the stream that is current when a step is marked; their distances are the steps' times."""

    name = "device"

    def __init__(self, new_event: Callable[[], DeviceEvent], current_stream: Callable[[], object]) -> None:
        """Begin at zero with the first step.

        Args:
            new_event: Makes an event that can be timed; events are used again.
            current_stream: Returns the stream that the step runs on.
        """
        self._new_event = new_event
        self._current_stream = current_stream
        self._pending: deque[tuple[int, int, DeviceEvent]] = deque()
        self._latest: DeviceEvent | None = None  # of the last end that was read
        self._spare: list[DeviceEvent] = []
        self._end_s = 0.0

    def mark(self, step: int, epoch: int) -> list[StepEnd]:
        """Record an event for this step; return the ends that the device has passed."""
        ends = self._passed()
        if len(self._pending) < MOST_PENDING_STEPS:
            event = self._spare.pop() if self._spare else self._new_event()
            event.record(self._current_stream())
            self._pending.append((step, epoch, event))
        return ends

    def _passed(self) -> list[StepEnd]:
        ends = []
        while self._pending and self._pending[0][2].query():
            step, epoch, event = self._pending.popleft()
            if self._latest is not None:
                self._end_s += self._latest.elapsed_time(event) * 1e-3
                self._spare.append(self._latest)
            self._latest = event
            ends.append(StepEnd(step, self._end_s, epoch))
        return ends


def clock_for(device: torch.device) -> StepClock:
    """Return the clock of a model on a device."""
    if device.type != "cuda":
        return HostClock()
    return DeviceClock(lambda: torch.cuda.Event(enable_timing=True), lambda: torch.cuda.current_stream(device))
