# SPDX-License-Identifier: Apache-2.0
"""One rank of `ringtune bench --trace`: the engine with its stopwatch on; rank 0 prints each lap's duration."""

import json
import sys

from ringtune.session.basics import init, shutdown
from ringtune.session.process_sets import global_process_set
from ringtune.session.submissions import world_of
from ringtune.world.world import World

from .engine_rank import BlockingCaller, GradientSteps, registered_arrays
from .timing import Scheme, aligned_zeros
from .workloads import Workload, WorkloadGradient

_WARM_UP_CALLS = 10
_BYTES = 256 << 20
_MAX_CALLS = 2000


def trace(way: str, workload: Workload, world: World) -> None:
    """Run steps of a workload, from memory of the way's kind, first without and then with the stopwatch.

    Args:
        way: `ordinary` or `registered`.
        workload: Gradients of a step; without a name, one blocking allreduce.
        world: World of this rank.
    """
    if way == "registered":
        arrays = registered_arrays(world, workload)
    else:
        arrays = [aligned_zeros(gradient.elements) for gradient in workload.gradients]
    names = [f"{workload.name}.{way}.{gradient.name}" for gradient in workload.gradients]
    if workload.name:
        run = GradientSteps(world, names, arrays).run
    else:
        run = lambda calls: BlockingCaller(world).allreduce(arrays[0], calls)  # noqa: E731
    calls = max(_WARM_UP_CALLS, min(_MAX_CALLS, _BYTES // workload.bytes))
    run(_WARM_UP_CALLS)
    world.engine.laps.start()
    run(calls)
    if world.rank == 0:
        us = {lap: seconds / calls * 1e6 for lap, seconds in world.engine.laps.seconds().items()}
        sys.stdout.write(json.dumps({"way": way, "workload": workload.name, "bytes": workload.bytes, "us": us}) + "\n")
        sys.stdout.flush()


def main() -> None:
    """Trace the scheme in the arguments."""
    scheme = Scheme.from_arguments(sys.argv[1:])
    init()
    world = world_of(global_process_set)
    sizes = [Workload("", (WorkloadGradient(str(size), size // 4),)) for size in scheme.sizes_bytes]
    for workload in (*sizes, *scheme.workloads):
        for way in ("ordinary", "registered"):
            trace(way, workload, world)
    shutdown()


if __name__ == "__main__":
    main()
