# SPDX-License-Identifier: Apache-2.0
"""A rank that works until its world is lost, then says as JSON when and how it learned of it, also in `lost.RANK`.

Argument: a folder, for that file, and for a file `ready.RANK` with the process id once work goes on. Allreduces of
several sizes are in flight at any time, so that a signal hits every part of the engine.
"""

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from ringtune.errors import EngineError
from tests.integration.plain_rank import join_together, say

FLOAT32 = 6
SUM = 1
SIZES = (1, 1000, 40_000, 700_000)


def work(world: Any, arrays: list[Any]) -> None:
    """Allreduce all arrays; after an error the engine may still look at some of them."""
    handles = [
        world.engine.allreduce_async(
            f"t{number}", array.ctypes.data, array.ctypes.data, array.shape, FLOAT32, SUM, is_gradient=False
        )
        for number, array in enumerate(arrays)
    ]
    for handle in handles:
        world.engine.wait(handle)


def main() -> None:
    """Work until the end of the world."""
    folder = Path(sys.argv[1])
    world = join_together(folder)
    chosen = random.Random(0)  # the same sizes on all ranks
    arrays: list[Any] = []
    is_ready = False
    try:
        while True:
            arrays = [np.ones(chosen.choice(SIZES), dtype=np.float32) for _ in range(4)]
            work(world, arrays)
            if not is_ready:
                is_ready = True
                (folder / f"ready.{world.rank}").write_text(f"{os.getpid()}\n", encoding="ascii")
    except EngineError as error:
        now_s = time.monotonic()
        found = {"rank": world.rank, "error": type(error).__name__, "text": str(error), "monotonic_s": now_s}
        say(json.dumps(found))
        (folder / f"lost.{world.rank}").write_text(f"{json.dumps(found)}\n", encoding="utf-8")
    world.shutdown()
    raise SystemExit(3)


main()
