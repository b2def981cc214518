# SPDX-License-Identifier: Apache-2.0
"""Joins, adds over all ranks and over a set that spans hosts, and says where each rank is, as JSON.

Arguments: how often to do so.
"""

import json
import sys
import time

from ringtune.session.process_sets import add_process_set
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say

TIMES = int(sys.argv[1]) if len(sys.argv) > 1 else 1

for _ in range(TIMES):
    world = join()
    joined_at_s = time.monotonic()
    total = allreduce(world, "sum", [float(world.rank)])
    ends = add_process_set([0, world.size - 1]) if world.size > 2 else None
    if ends is not None and ends.included():
        assert [2.0] == allreduce(ends.world, "ends", [1.0])
    place = {
        "rank": world.rank,
        "size": world.size,
        "local": [world.local_rank, world.local_size],
        "cross": [world.cross_rank, world.cross_size],
        "carrier": world.carrier,
        "total": total[0],
        "joined_at_s": joined_at_s,
    }
    SESSION.shutdown()
say(json.dumps(place))
