# SPDX-License-Identifier: Apache-2.0
"""Rank 1 ends in the way that the argument names while the others go on combining."""

import os
import signal
import sys

from ringtune.errors import EngineError
from tests.integration.plain_rank import allreduce, join, say

world = join()
allreduce(world, "before", [1.0])
if world.rank == 1:
    if sys.argv[1] == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    raise ValueError("this rank has a bug")
try:
    for step in range(1_000_000):
        allreduce(world, f"step.{step % 4}", [1.0] * 100_000)
except EngineError as error:
    say(f"rank {world.rank}: {type(error).__name__}: {error}")
    raise
