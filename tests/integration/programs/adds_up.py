# SPDX-License-Identifier: Apache-2.0
"""Joins and adds up the ranks' numbers."""

from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say

world = join()
(total,) = allreduce(world, "numbers", [float(world.rank)])
say(f"rank {world.rank} of {world.size} has {total:.0f}")
SESSION.shutdown()
