# SPDX-License-Identifier: Apache-2.0
"""One rank of the contestant Horovod, under its defaults; horovodrun starts it.

A step hands over every gradient under its name as a backward pass would, then waits for all.
"""

import sys

import horovod.torch as hvd  # type: ignore[import-not-found]
import torch

from .timing import Floats, Scheme, Way, aligned_zeros, measure, measure_sizes
from .workloads import Workload


class HorovodCaller:
    """Calls Horovod's allreduce, which waits."""

    def __init__(self) -> None:
        self.rank: int = hvd.rank()
        self.ranks: int = hvd.size()

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, `calls` times."""
        tensor, name = torch.from_numpy(data), f"bench.{data.nbytes}"
        for _ in range(calls):
            hvd.allreduce_(tensor, name=name, op=hvd.Sum)


def step_of(workload: Workload) -> Way:
    """Return the way to reduce a workload's gradients."""
    arrays = [aligned_zeros(gradient.elements) for gradient in workload.gradients]
    named = [(each.name, torch.from_numpy(array)) for each, array in zip(workload.gradients, arrays, strict=True)]

    def run(calls: int) -> None:
        for _ in range(calls):
            for handle in [hvd.allreduce_async_(tensor, name=name, op=hvd.Sum) for name, tensor in named]:
                hvd.synchronize(handle)

    return Way("horovod", arrays, run, workload.name)


def main() -> None:
    """Measure the scheme in the arguments."""
    hvd.init()
    scheme, caller = Scheme.from_arguments(sys.argv[1:]), HorovodCaller()
    measure_sizes("horovod", scheme, caller)
    for workload in scheme.workloads:
        measure(step_of(workload), scheme, caller)
    hvd.shutdown()


if __name__ == "__main__":
    main()
