# SPDX-License-Identifier: Apache-2.0
"""Training steps whose gradients come one after the other; rank 0 prints its counters of the last steps as JSON.

Arguments: number of steps that are counted, gradients of a step, milliseconds between two of them.
"""

import json
import sys
import time
from array import array

from tests.integration.plain_rank import join, say, submit, wait

FIRST_STEPS = 10
"""Steps before the counted ones: by then the engine knows the rhythm."""


def main() -> None:
    """Train, and print."""
    steps, tensors, between_ms = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    world = join()
    memory = [array("d", [1.0] * 100) for _ in range(tensors)]
    before: dict[str, int] = {}
    for step in range(FIRST_STEPS + steps):
        if step == FIRST_STEPS:
            before = world.engine.counters()
        handles = []
        for number, values in enumerate(memory):
            time.sleep(between_ms / 1e3)
            handles.append(submit(world, f"g{number}", values, is_gradient=True))
        for handle in handles:
            wait(world, handle)
        world.engine.mark_step()
    after = world.engine.counters()
    if world.rank == 0:
        say(json.dumps({name: count - before[name] for name, count in after.items()}))
    world.shutdown()


main()
