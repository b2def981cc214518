# SPDX-License-Identifier: Apache-2.0
"""Marks the end of a step in a world: by the host's clock, or by the device's where gradients are on a GPU.

The host may be through with a step that the GPU has still to do. The engine then gets the step at once, for its count
and the config that is in force, and its time later.
"""

import time

import torch

from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of
from ringtune.tuning.device_clock import DeviceClock, cuda_clock
from ringtune.world.world import World


class StepEnds:
    """The steps of one world that its GPU has still to pass."""

    def __init__(self, clock: DeviceClock[int]) -> None:
        """Begin without a step, at the host's time.

        Args:
            clock: Clock of the GPU; it begins with the first step.
        """
        self._clock = clock
        self._begin_ns = time.monotonic_ns()

    def mark(self, world: World) -> int:
        """Mark the end of a step, report to the engine those that the device has passed, and return its number."""
        for step, end_s in self._clock.passed():
            world.engine.time_device_step(step, self._begin_ns + int(end_s * 1e9))
        step = world.engine.mark_device_step()
        self._clock.mark(step)
        return step


def note_gradient(world: World, name: str, parameter: torch.Tensor) -> None:
    """Register the gradient of a parameter that a step submits with a world, and the GPU that it is on."""
    gpu = parameter.get_device() if parameter.is_cuda else None
    world.gradient_set.add(name, str(parameter.dtype), tuple(parameter.shape), gpu=gpu)


def mark_step() -> None:
    """Mark the end of a training step, where no `DistributedOptimizer` does; raises `ConfigError` before `init()`."""
    mark_step_end(world_of(global_process_set))


def mark_optimizer_step(world: World, optimizer: object) -> None:
    """Mark the end of an optimizer's step, which is that of a training step once all others have stepped, too."""
    if world.step_rounds.ends_step(optimizer):
        mark_step_end(world)


def mark_step_end(world: World) -> int:
    """Mark the end of a step for the tuner, and return its number. The thread that trains calls it once a step."""
    gpu = world.gradient_set.gpu
    if gpu is None:
        return world.engine.mark_step()
    ends = world.step_ends.get(gpu)
    if ends is None:
        ends = world.step_ends[gpu] = StepEnds(cuda_clock(torch.device("cuda", gpu)))
    return ends.mark(world)
