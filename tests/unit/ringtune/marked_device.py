# SPDX-License-Identifier: Apache-2.0
"""A device that is moved by hand from one event to the next, for tests of clocks."""

from dataclasses import dataclass, field


@dataclass
class Device:
    """A device that gets to the next event when it is told, at a time that it is told."""

    launched: list["Event"] = field(default_factory=list)
    made: int = 0

    def new_event(self) -> "Event":
        """Make an event, counted."""
        self.made += 1
        return Event(self)

    def pass_event(self, at_ms: float) -> None:
        """Get to the next event."""
        event = next(event for event in self.launched if event.at_ms is None)
        event.at_ms = at_ms


class Event:
    """Stands in for `torch.cuda.Event`."""

    def __init__(self, device: Device) -> None:
        """Belong to a device."""
        self.device = device
        self.at_ms: float | None = None
        self.stream: object = None

    def record(self, stream: object) -> None:
        """Go onto a stream."""
        if self in self.device.launched:
            self.device.launched.remove(self)
        self.at_ms, self.stream = None, stream
        self.device.launched.append(self)

    def query(self) -> bool:
        """Tell whether the device was here."""
        return self.at_ms is not None

    def elapsed_time(self, end_event: "Event") -> float:
        """Return the time between; both must have been passed."""
        assert self.at_ms is not None
        assert end_event.at_ms is not None
        return end_event.at_ms - self.at_ms
