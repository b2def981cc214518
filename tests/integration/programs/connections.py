# SPDX-License-Identifier: Apache-2.0
"""Allreduces while rank 0 switches the number of connections; the last line has this rank's observations as JSON.

Arguments: number of allreduces, bytes of each, the numbers of connections that take turns, by commas, and if given a
file that rank 0 writes after the first allreduce. Elements are no integers, so that a misplaced one shows in the
result's digest.
"""

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from ringtune.tuner import default_config
from ringtune.world.engine_config import engine_config
from ringtune.world.world import World
from tests.integration.plain_rank import FLOAT64, SUM, join, say


def reduce(world: World, rounds: int, size_bytes: int, turns: Sequence[int]) -> list[str]:
    """Return the digests of all results, each once."""
    given = np.random.default_rng(world.rank).standard_normal(size_bytes // 8)
    results = set()
    for number in range(rounds):
        if world.rank == 0 and len(turns) > 1:
            knobs = {"connections": turns[number % len(turns)]}
            world.engine.apply_config(engine_config(default_config(world.layout.ranks_per_host).replace(knobs)))
        got = np.zeros_like(given)
        at, out = given.ctypes.data, got.ctypes.data
        world.engine.wait(world.engine.allreduce_async(f"t{number % 3}", at, out, given.shape, FLOAT64, SUM, False))
        results.add(hashlib.sha256(got.tobytes()).hexdigest())
        if number == 0 and world.rank == 0 and len(sys.argv) > 4:
            Path(sys.argv[4]).write_text("begun\n", encoding="ascii")
    return sorted(results)


def sent_by_interface() -> dict[str, int]:
    """Return the bytes that this host has sent, by interface."""
    lines = Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]
    parts = (line.partition(":") for line in lines)
    return {name.strip(): int(counts.split()[8]) for name, _, counts in parts}


def main() -> None:
    """Reduce, and print the observations."""
    world = join()
    results = reduce(world, int(sys.argv[1]), int(sys.argv[2]), [int(count) for count in sys.argv[3].split(",")])
    counters = world.engine.counters()
    connections = {name: count for name, count in counters.items() if name.startswith("connection.") and count > 0}
    facts = {"results": results, "connections": connections, "switches": counters["config_switches"]}
    say(json.dumps({"rank": world.rank, **facts, "sent_by": sent_by_interface()}))
    world.shutdown()


main()
