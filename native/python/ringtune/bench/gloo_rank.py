# SPDX-License-Identifier: Apache-2.0
"""One rank of the contestant Gloo, as torch.distributed has it; torchrun starts it."""

import sys

import torch
import torch.distributed as dist

from .timing import Floats, Scheme, measure_all


class GlooCaller:
    """Calls Gloo through torch.distributed."""

    def __init__(self) -> None:
        self.rank = dist.get_rank()
        self.ranks = dist.get_world_size()

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, as many times as `calls` says."""
        tensor = torch.from_numpy(data)
        for _ in range(calls):
            dist.all_reduce(tensor)


def main() -> None:
    """Measure what the arguments say."""
    dist.init_process_group("gloo")
    measure_all("gloo", Scheme.from_arguments(sys.argv[1:]), GlooCaller())
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
