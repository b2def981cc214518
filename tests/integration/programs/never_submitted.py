# SPDX-License-Identifier: Apache-2.0
"""Rank 0 submits a tensor that rank 1 never does; both work on with others until they are stopped, and print why."""

from array import array

from ringtune.errors import CollectiveTimeout
from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say, submit

world = join()
memory = array("d", [1.0])
if world.rank == 0:
    submit(world, "only_on_rank_0", memory)
try:
    while True:
        allreduce(world, "busy", [1.0])
except CollectiveTimeout as error:
    say(f"rank {world.rank} timed out: {error}")
SESSION.shutdown()
