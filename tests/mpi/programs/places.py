# SPDX-License-Identifier: Apache-2.0
"""Prints where MPI has put this rank and which transport carries its data, and reduces with the others."""

from tests.integration.plain_rank import allreduce, join, say

world = join()
total = allreduce(world, "x", [1.0, float(world.rank)])
assert [float(world.size), sum(map(float, range(world.size)))] == total, total
say(f"rank {world.rank} of {world.size}, local {world.local_rank} of {world.local_size}, by {world.carrier}")
