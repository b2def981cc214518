# SPDX-License-Identifier: Apache-2.0
"""Clocks for the ends of steps: the host's for models in CPU memory, the device's for models on a GPU."""

import time
from typing import Protocol

import torch

from ringtune.tuning.device_clock import DeviceClock, cuda_clock
from ringtune.tuning.job.windows import StepEnd


class StepClock(Protocol):
    """Measures the ends of steps. Used from the thread that trains."""

    def mark(self, step: int, epoch: int) -> list[StepEnd]:
        """Mark the end of a step under a config epoch; return the ends that are known by now, in their order."""


class HostSteps:
    """The host's steady clock: a step ends when it is marked."""

    def mark(self, step: int, epoch: int) -> list[StepEnd]:
        """Return the end of this step."""
        return [StepEnd(step, time.monotonic(), epoch)]


class DeviceSteps:
    """The device's clock: a step's end is known once the device has passed it, a step or more later.

    A step that is marked while the device is too far behind is missing, and the window at hand begins again.
    """

    def __init__(self, clock: DeviceClock[tuple[int, int]]) -> None:
        """Mark on a clock."""
        self._clock = clock

    def mark(self, step: int, epoch: int) -> list[StepEnd]:
        """Mark the end of this step; return the ends of those that the device has passed."""
        ends = [StepEnd(number, end_s, its_epoch) for (number, its_epoch), end_s in self._clock.passed()]
        self._clock.mark((step, epoch))
        return ends


def clock_for(device: torch.device) -> StepClock:
    """Return the clock of a model on a device."""
    return DeviceSteps(cuda_clock(device)) if device.type == "cuda" else HostSteps()
