# SPDX-License-Identifier: Apache-2.0
"""One rank of the contestant `engine`: a front end's submissions, single allreduces and whole steps.

Ways to wait for a single one:

- blocking: the caller waits, and does the engine's work meanwhile;
- polled: the caller only looks whether the communication thread is done. The engine does not learn that no more
  arrays come, so that the thread waits `cycle_ms` for them;
- polled in steps: each is a step, marked by `mark_step`, so that it goes as soon as it is submitted.
"""

import os
import sys
from collections.abc import Sequence

import numpy as np

from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import DTYPES, Operand, Reduction, Sum, start_allreduce, world_of
from ringtune.world.handles import Handle
from ringtune.world.world import World

from .timing import Floats, Scheme, Way, aligned_zeros, measure, measure_sizes
from .workloads import Workload

_FLOAT32 = DTYPES.index("float32")
_SUM = Reduction(Sum)
_LINE_BYTES = 64


class BlockingCaller:
    """Waits for each allreduce: queue, negotiation and collective run in its thread."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.rank = world.rank
        self.ranks = world.size

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, `calls` times."""
        operand = operand_of(data)
        name = f"bench.{data.nbytes}"
        for _ in range(calls):
            self._finish(start_allreduce(self._world, name, (operand, operand), _SUM, lambda _: data))

    def _finish(self, handle: Handle) -> None:
        handle.wait()


class PollingCaller(BlockingCaller):
    """Leaves the work to the communication thread."""

    def _finish(self, handle: Handle) -> None:
        while not handle.poll():
            os.sched_yield()
        handle.wait()


class SteppingCaller(PollingCaller):
    """Marks each allreduce as a step."""

    def _finish(self, handle: Handle) -> None:
        super()._finish(handle)
        self._world.engine.mark_step()


class GradientSteps:
    """Submits every gradient under its name, in order, then waits for all."""

    def __init__(self, world: World, names: Sequence[str], arrays: Sequence[Floats]) -> None:
        self._world = world
        self._gradients = [(name, operand_of(array)) for name, array in zip(names, arrays, strict=True)]

    def run(self, calls: int) -> None:
        """Run `calls` steps."""
        for _ in range(calls):
            handles = [
                start_allreduce(self._world, name, (operand, operand), _SUM, lambda _: None, is_gradient=True)
                for name, operand in self._gradients
            ]
            for handle in handles:
                handle.wait()
            self._world.engine.mark_step()


def operand_of(data: Floats) -> Operand:
    """Return an array as the engine takes it."""
    return Operand(data.ctypes.data, data.shape, _FLOAT32, data)


def registered_arrays(world: World, workload: Workload) -> list[Floats]:
    """Return registered memory for a workload's gradients, side by side in their order, each from a cache line on."""
    sizes = [-(-gradient.elements * 4 // _LINE_BYTES) * _LINE_BYTES for gradient in workload.gradients]
    memory = world.engine.allocate_registered(sum(sizes)).view(np.float32)
    begins = np.cumsum([0, *sizes[:-1]]) // 4
    return [
        memory[begin : begin + gradient.elements] for begin, gradient in zip(begins, workload.gradients, strict=True)
    ]


def measure_workload(contestant: str, workload: Workload, scheme: Scheme, world: World) -> None:
    """Check and time a workload's steps, with ordinary and, where the world is one host, with registered memory.

    Args:
        contestant: Prefix of the rows' names.
        workload: Workload of the gradients.
        scheme: Time to measure for.
        world: World of this rank.
    """
    memories = {contestant: [aligned_zeros(gradient.elements) for gradient in workload.gradients]}
    if world.layout.host_count == 1:
        memories[f"{contestant}, registered"] = registered_arrays(world, workload)
    for name, arrays in memories.items():
        names = [f"{workload.name}.{name}.{gradient.name}" for gradient in workload.gradients]
        way = Way(name, arrays, GradientSteps(world, names, arrays).run, workload.name)
        measure(way, scheme, BlockingCaller(world))


def main() -> None:
    """Measure the contestant and the scheme in the arguments."""
    name, scheme = sys.argv[1], Scheme.from_arguments(sys.argv[2:])
    init()
    world = world_of(global_process_set)
    measure_sizes(name, scheme, BlockingCaller(world))
    measure_sizes(f"{name}, polled", scheme, PollingCaller(world))
    # The engine knows from here on how many tensors a step has.
    measure_sizes(f"{name}, polled in steps", scheme, SteppingCaller(world))
    for workload in scheme.workloads:
        measure_workload(name, workload, scheme, world)
    shutdown()


if __name__ == "__main__":
    main()
