# SPDX-License-Identifier: Apache-2.0
"""Ends of steps in device time, with events of a device that is moved by hand."""

from itertools import pairwise

import pytest
import torch

from ringtune.tuning.device_clock import MOST_PENDING, DeviceClock
from ringtune.tuning.job.windows import StepEnd
from ringtune.tuning.model.step_clock import DeviceSteps, HostSteps, clock_for
from tests.unit.ringtune.marked_device import Device


@pytest.fixture
def device() -> Device:
    """Return an idle device."""
    return Device()


@pytest.fixture
def clock(device: Device) -> DeviceSteps:
    """Return its clock."""
    return DeviceSteps(DeviceClock(device.new_event, lambda: "stream"))


def test_steps_take_what_the_device_takes(device: Device, clock: DeviceSteps) -> None:
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


def test_an_event_that_the_device_has_not_passed_is_left_for_later(device: Device, clock: DeviceSteps) -> None:
    """No thread waits for it, and no later one goes before it."""
    clock.mark(1, 0)
    clock.mark(2, 0)
    device.pass_event(5.0)

    assert [1] == [end.step for end in clock.mark(3, 0)]
    assert [] == clock.mark(4, 0)
    device.pass_event(6.0)
    assert [2] == [end.step for end in clock.mark(5, 0)]


def test_events_are_used_again(device: Device, clock: DeviceSteps) -> None:
    """A long training makes a few."""
    ends = []
    for step in range(1, 1001):
        ends += clock.mark(step, 0)
        device.pass_event(float(step))

    assert list(range(1, 1000)) == [end.step for end in ends]
    assert [1.0] * 998 == [round((b.end_s - a.end_s) * 1e3, 6) for a, b in pairwise(ends)]
    assert device.made <= 3
    assert {"stream"} == {event.stream for event in device.launched}


def test_a_device_that_hangs_behind_costs_no_memory(device: Device, clock: DeviceSteps) -> None:
    """Steps that were not timed are missing: the window begins again there."""
    for step in range(1, 10 * MOST_PENDING):
        clock.mark(step, 0)
    assert MOST_PENDING == device.made
    for _ in range(MOST_PENDING):
        device.pass_event(1.0)

    ends = clock.mark(10 * MOST_PENDING, 0)
    device.pass_event(2.0)

    assert list(range(1, MOST_PENDING + 1)) == [end.step for end in ends]
    assert [10 * MOST_PENDING] == [end.step for end in clock.mark(10 * MOST_PENDING + 1, 0)]


def test_a_model_in_cpu_memory_has_the_hosts_clock() -> None:
    """Each step's end is known at once, and time goes forward."""
    clock = clock_for(torch.device("cpu"))

    (first,), (second,) = clock.mark(1, 0), clock.mark(2, 3)

    assert isinstance(clock, HostSteps)
    assert (1, 0, 2, 3) == (first.step, first.epoch, second.step, second.epoch)
    assert second.end_s >= first.end_s


def test_a_model_on_a_gpu_has_the_devices_clock() -> None:
    """Made without touching the GPU."""
    assert isinstance(clock_for(torch.device("cuda", 0)), DeviceSteps)
