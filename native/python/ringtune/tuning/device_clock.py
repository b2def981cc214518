# SPDX-License-Identifier: Apache-2.0
"""A clock of the device: when it passed marks on a stream, read later, so that the host never waits for it.

A host that trains on a GPU runs ahead of it, and can time only the launching of a step. A mark is an event with a
time on the stream that is current. It costs the host a record, a query and the reading of a time difference.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

import torch

MOST_PENDING = 64
"""Marks that the device may be behind; further ones are not taken."""

Label = TypeVar("Label")


class DeviceEvent(Protocol):
    """The methods of `torch.cuda.Event` that are used."""

    def record(self, stream: Any) -> None:
        """Put the event onto a stream."""

    def query(self) -> bool:
        """Return whether the device has passed it; never waits."""

    def elapsed_time(self, end_event: Any) -> float:
        """Return the milliseconds from this event to a later one, both passed."""


class DeviceClock(Generic[Label]):
    """Marks with labels, and the times at which the device passed them. Used from one thread."""

    def __init__(self, new_event: Callable[[], DeviceEvent], current_stream: Callable[[], object]) -> None:
        """Begin at zero with the first mark.

        Args:
            new_event: Makes an event that can be timed; events are used again.
            current_stream: Returns the stream that a mark goes onto.
        """
        self._new_event = new_event
        self._current_stream = current_stream
        self._pending: deque[tuple[Label, DeviceEvent]] = deque()
        self._latest: DeviceEvent | None = None  # of the last mark that was read
        self._spare: list[DeviceEvent] = []
        self._now_s = 0.0

    def mark(self, label: Label) -> None:
        """Put a mark onto the stream, unless the device is too far behind."""
        if len(self._pending) >= MOST_PENDING:
            return
        event = self._spare.pop() if self._spare else self._new_event()
        event.record(self._current_stream())
        self._pending.append((label, event))

    def passed(self) -> list[tuple[Label, float]]:
        """Return the marks that the device has passed since the last call, in their order, with the times, seconds."""
        found = []
        while self._pending and self._pending[0][1].query():
            label, event = self._pending.popleft()
            if self._latest is not None:
                self._now_s += self._latest.elapsed_time(event) * 1e-3
                self._spare.append(self._latest)
            self._latest = event
            found.append((label, self._now_s))
        return found


def cuda_clock(device: torch.device) -> DeviceClock[Any]:
    """Return the clock of a GPU; its first event is made at the first mark."""
    return DeviceClock(lambda: torch.cuda.Event(enable_timing=True), lambda: torch.cuda.current_stream(device))
