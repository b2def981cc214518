# SPDX-License-Identifier: Apache-2.0
"""Allreduces while rank 0 switches the number of connections; the last line says as JSON what this rank has seen.

Arguments: number of allreduces, bytes of each, and the numbers of connections that take turns, by commas. Elements are
no integers, so that another order of the sum would change bits.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np

from ringtune.tuner import default_config
from ringtune.world.engine_config import engine_config
from tests.integration.plain_rank import FLOAT64, SUM, join, say

world = join()
rounds, size_bytes = int(sys.argv[1]), int(sys.argv[2])
turns = [int(count) for count in sys.argv[3].split(",")]
layout = world.layout.ranks_per_host
given = np.random.default_rng(world.rank).standard_normal(size_bytes // 8)
results = set()
for number in range(rounds):
    if world.rank == 0 and len(turns) > 1:
        config = default_config(layout).replace({"connections": turns[number % len(turns)]})
        world.engine.apply_config(engine_config(config))
    got = np.zeros_like(given)
    name = f"t{number % 3}"
    handle = world.engine.allreduce_async(name, given.ctypes.data, got.ctypes.data, given.shape, FLOAT64, SUM, False)
    world.engine.wait(handle)
    results.add(hashlib.sha256(got.tobytes()).hexdigest())
sent_by = {}
for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines()[2:]:
    name, _, counts = line.partition(":")
    sent_by[name.strip()] = int(counts.split()[8])
counters = world.engine.counters()
connections = {name: count for name, count in counters.items() if name.startswith("connection.") and count > 0}
switches = counters["config_switches"]
line = {"rank": world.rank, "results": sorted(results), "connections": connections, "switches": switches}
say(json.dumps({**line, "sent_by": sent_by}))
world.shutdown()
