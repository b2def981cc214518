# SPDX-License-Identifier: Apache-2.0
"""Leaves the world and joins it again, twice, with MPI staying as it is."""

from ringtune.session.session import SESSION
from tests.integration.plain_rank import allreduce, join, say

for generation in range(3):
    world = join()
    total = allreduce(world, "x", [float(generation)])
    assert [generation * float(world.size)] == total, total
    SESSION.shutdown()
say("joined three times")
