# SPDX-License-Identifier: Apache-2.0
"""Ends of steps that a GPU has still to pass: the engine hears of the step at once, and of its time later."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import pytest

from ringtune.identity.gradient_set import GradientSet
from ringtune.torch import step_ends
from ringtune.torch.step_ends import StepEnds, mark_step_end
from ringtune.tuning.device_clock import DeviceClock
from tests.unit.ringtune.marked_device import Device


class Steps:
    """The calls that the engine gets."""

    def __init__(self) -> None:
        """Begin without a step."""
        self.count = 0
        self.on_host: list[int] = []
        self.ended: list[tuple[int, int]] = []

    def mark_step(self) -> None:
        """Take a step of the host."""
        self.on_host.append(self.count)
        self.count += 1

    def mark_device_step(self) -> int:
        """Take a step of the device."""
        self.count += 1
        return self.count - 1

    def time_device_step(self, step: int, end_ns: int) -> None:
        """Take the time of one."""
        self.ended.append((step, end_ns))


@pytest.fixture
def world() -> Any:
    """Return a world as far as ends of steps go."""
    return SimpleNamespace(engine=Steps(), gradient_set=GradientSet(), step_ends={})


def test_a_step_in_cpu_memory_ends_on_the_host(world: Any) -> None:
    """A step in CPU memory ends when the host is through with it."""
    world.gradient_set.add("w", "float32", (2,))

    mark_step_end(world)

    assert ([0], {}) == (world.engine.on_host, world.step_ends)


def test_a_step_on_a_gpu_ends_when_the_gpu_is_through_with_it(world: Any) -> None:
    """The GPU's own clock, which begins at the host's time, ends the step; the host does not wait."""
    device = Device()
    ends = StepEnds(DeviceClock(device.new_event, lambda: "stream"))
    for _ in range(3):
        ends.mark(world)
    assert (3, []) == (world.engine.count, world.engine.ended)
    for at_ms in (100.0, 130.0):
        device.pass_event(at_ms)

    ends.mark(world)

    (first, first_ns), (second, second_ns) = world.engine.ended
    assert (0, 1, 4) == (first, second, world.engine.count)
    assert 30_000_000 == pytest.approx(second_ns - first_ns, abs=10)


def test_a_world_has_one_clock_for_a_gpu(world: Any) -> None:
    """However many optimizers mark its steps."""
    world.gradient_set.add("w", "float32", (2,), gpu=1)
    device, made = Device(), []

    def clock(gpu: Any) -> Any:
        made.append(gpu.index)
        return DeviceClock(device.new_event, lambda: "stream")

    with patch.object(step_ends, "cuda_clock", clock):
        for _ in range(4):
            mark_step_end(world)

    assert ([1], [1], 4) == (made, list(world.step_ends), world.engine.count)
    assert [] == world.engine.on_host
