# SPDX-License-Identifier: Apache-2.0
"""One rank of the engine between hosts: blocking allreduces, and whole steps.

The way of waiting is not measured here: its cost is negligible beside the wire's.
"""

import sys

from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of

from .engine_rank import BlockingCaller, measure_workload
from .timing import Scheme, measure_sizes


def main() -> None:
    """Measure the contestant and the scheme in the arguments."""
    name, scheme = sys.argv[1], Scheme.from_arguments(sys.argv[2:])
    init()
    world = world_of(global_process_set)
    measure_sizes(name, scheme, BlockingCaller(world))
    for workload in scheme.workloads:
        measure_workload(name, workload, scheme, world)
    shutdown()


if __name__ == "__main__":
    main()
