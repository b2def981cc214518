# SPDX-License-Identifier: Apache-2.0
"""One rank of the contestant `engine`: named, blocking allreduces, as a front end submits them."""

import sys

from ringtune.basics import init, shutdown
from ringtune.process_sets import global_process_set
from ringtune.submissions import DTYPES, Operand, Reduction, Sum, start_allreduce, world_of

from .timing import Floats, Scheme, measure_all


class EngineCaller:
    """Calls the whole engine: queue, negotiation, collective."""

    def __init__(self) -> None:
        self._world = world_of(global_process_set)
        self.rank = self._world.rank
        self.ranks = self._world.size

    def allreduce(self, data: Floats, calls: int) -> None:
        """Sum an array over all ranks, in place, as many times as `calls` says."""
        operand = Operand(data.ctypes.data, data.shape, DTYPES.index("float32"), data)
        name = f"bench.{data.nbytes}"
        for _ in range(calls):
            start_allreduce(self._world, name, (operand, operand), Reduction(Sum), lambda _: data).wait()


def main() -> None:
    """Measure what the arguments say."""
    init()
    measure_all("engine", Scheme.from_arguments(sys.argv[1:]), EngineCaller())
    shutdown()


if __name__ == "__main__":
    main()
