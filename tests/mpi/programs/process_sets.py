# SPDX-License-Identifier: Apache-2.0
"""Combines in a process set of the first and the last rank, which no two ranks number alike."""

from ringtune.session.process_sets import add_process_set
from tests.integration.plain_rank import allreduce, join, say

world = join()
ends = add_process_set([0, world.size - 1])
if ends.included():
    part = ends.world
    total = allreduce(part, "x", [float(world.rank)] * 100_000)
    assert [world.size - 1.0] * 100_000 == total, total[:3]
    say(f"rank {world.rank} is {part.rank} of {part.size}, by {part.carrier}")
allreduce(world, "y", [1.0])
