# SPDX-License-Identifier: Apache-2.0
"""Ends of steps in device time, with events of a device that is moved by hand."""

from dataclasses import dataclass, field
from itertools import pairwise

import pytest
import torch

from ringtune.ddp.step_clock import MOST_PENDING_STEPS, DeviceClock, HostClock, clock_for
from ringtune.ddp.windows import StepEnd


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


@pytest.fixture
def device() -> Device:
    """Return a device that has done nothing."""
    return Device()


@pytest.fixture
def clock(device: Device) -> DeviceClock:
    """Return its clock."""
    return DeviceClock(device.new_event, lambda: "stream")


def test_steps_take_what_the_device_takes(device: Device, clock: DeviceClock) -> None:
    """However far the host has run ahead; each end has the epoch that held when it was marked."""
    assert [] == clock.mark(1, 0)
    assert [] == clock.mark(2, 0)
    assert [] == clock.mark(3, 1)
    for at_ms in (1000.0, 1250.0, 1300.0):
        device.pass_event(at_ms)

    ends = clock.mark(4, 1)

    assert [StepEnd(1, 0.0, 0), StepEnd(2, 0.25, 0), StepEnd(3, 0.3, 1)] == [
        StepEnd(end.step, round(end.end_s, 9), end.epoch) for end in ends
    ]


def test_an_event_that_the_device_has_not_passed_is_left_for_later(device: Device, clock: DeviceClock) -> None:
    """Nothing waits for it, and no later one goes before it."""
    clock.mark(1, 0)
    clock.mark(2, 0)
    device.pass_event(5.0)

    assert [1] == [end.step for end in clock.mark(3, 0)]
    assert [] == clock.mark(4, 0)
    device.pass_event(6.0)
    assert [2] == [end.step for end in clock.mark(5, 0)]


def test_events_are_used_again(device: Device, clock: DeviceClock) -> None:
    """A long training makes a few."""
    ends = []
    for step in range(1, 1001):
        ends += clock.mark(step, 0)
        device.pass_event(float(step))

    assert list(range(1, 1000)) == [end.step for end in ends]
    assert [1.0] * 998 == [round((b.end_s - a.end_s) * 1e3, 6) for a, b in pairwise(ends)]
    assert device.made <= 3
    assert {"stream"} == {event.stream for event in device.launched}


def test_a_device_that_hangs_behind_costs_no_memory(device: Device, clock: DeviceClock) -> None:
    """Steps that were not timed are missing: the window begins again there."""
    for step in range(1, 10 * MOST_PENDING_STEPS):
        clock.mark(step, 0)
    assert MOST_PENDING_STEPS == device.made
    for _ in range(MOST_PENDING_STEPS):
        device.pass_event(1.0)

    ends = clock.mark(10 * MOST_PENDING_STEPS, 0)
    device.pass_event(2.0)

    assert list(range(1, MOST_PENDING_STEPS + 1)) == [end.step for end in ends]
    assert [10 * MOST_PENDING_STEPS] == [end.step for end in clock.mark(10 * MOST_PENDING_STEPS + 1, 0)]


def test_a_model_in_cpu_memory_has_the_hosts_clock() -> None:
    """Each step's end is known at once, and time goes forward."""
    clock = clock_for(torch.device("cpu"))

    (first,), (second,) = clock.mark(1, 0), clock.mark(2, 3)

    assert isinstance(clock, HostClock)
    assert (1, 0, 2, 3) == (first.step, first.epoch, second.step, second.epoch)
    assert second.end_s >= first.end_s


def test_a_model_on_a_gpu_has_the_devices_clock() -> None:
    """Made without touching the GPU."""
    assert isinstance(clock_for(torch.device("cuda", 0)), DeviceClock)
