# SPDX-License-Identifier: Apache-2.0
"""Ranks that are within a collective almost all the time, until Ctrl-C, which each reports.

Arguments: a folder for a file per rank, with its process id.
"""

import os
import signal
import sys
from pathlib import Path

import numpy as np

from tests.integration.plain_rank import SUM, join, say

FLOAT32 = 6
ELEMENTS = 16 << 20


def main() -> None:
    """Reduce the same large array again and again."""
    folder = Path(sys.argv[1])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    world = join()
    memory = np.zeros(ELEMENTS, dtype=np.float32)
    address, shape = memory.ctypes.data, memory.shape
    try:
        for step in range(1_000_000):
            world.engine.wait(world.engine.allreduce_async("x", address, address, shape, FLOAT32, SUM, False))
            if step == 0:
                (folder / f"pid.{world.rank}").write_text(f"{os.getpid()}\n", encoding="utf-8")
    except KeyboardInterrupt:
        say(f"rank {world.rank} was interrupted")
        raise


main()
