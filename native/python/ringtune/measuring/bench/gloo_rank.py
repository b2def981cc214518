# SPDX-License-Identifier: Apache-2.0
"""One rank of the contestant Gloo, as torch.distributed has it; torchrun starts it.

A workload's step in the ways of `mpi_allreduce.cpp`: tensor after tensor, all at once, and as one allreduce.
"""

import sys
from collections.abc import Callable

import torch
import torch.distributed as dist

from .timing import Floats, Scheme, Way, aligned_zeros, measure, measure_sizes
from .workloads import Workload


class GlooCaller:
    """Calls Gloo through torch.distributed."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, `calls` times."""
        tensor = torch.from_numpy(data)
        for _ in range(calls):
            dist.all_reduce(tensor)


class GlooSteps:
    """The ways to reduce a workload's gradients."""

    def __init__(self, workload: Workload) -> None:
        elements = [gradient.elements for gradient in workload.gradients]
        self._workload = workload.name
        self._flat = aligned_zeros(sum(elements))
        self._apart = [aligned_zeros(each) for each in elements]
        self._buffer = torch.from_numpy(self._flat)
        self._pieces = self._buffer.split(elements)
        self._gradients = [torch.from_numpy(array) for array in self._apart]

    def ways(self) -> list[Way]:
        """Return all of them."""
        in_one = [piece.numpy() for piece in self._pieces]
        return [
            self._way("one by one", self._apart, self._one_by_one),
            self._way("at once", self._apart, self._at_once),
            self._way("packed", self._apart, self._packed),
            self._way("flat", in_one, self._all_in_one),
        ]

    def _way(self, name: str, arrays: list[Floats], step: Callable[[], None]) -> Way:
        def run(calls: int) -> None:
            for _ in range(calls):
                step()

        return Way(f"gloo, {name}", arrays, run, self._workload)

    def _one_by_one(self) -> None:
        for gradient in self._gradients:
            dist.all_reduce(gradient)

    def _at_once(self) -> None:
        for work in [dist.all_reduce(gradient, async_op=True) for gradient in self._gradients]:
            work.wait()

    def _packed(self) -> None:
        for piece, gradient in zip(self._pieces, self._gradients, strict=True):
            piece.copy_(gradient)
        self._all_in_one()
        for piece, gradient in zip(self._pieces, self._gradients, strict=True):
            gradient.copy_(piece)

    def _all_in_one(self) -> None:
        dist.all_reduce(self._buffer)


def main() -> None:
    """Measure the scheme in the arguments."""
    dist.init_process_group("gloo")
    scheme, caller = Scheme.from_arguments(sys.argv[1:]), GlooCaller()
    measure_sizes("gloo", scheme, caller)
    for workload in scheme.workloads:
        for way in GlooSteps(workload).ways():
            measure(way, scheme, caller)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
