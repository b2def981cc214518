# SPDX-License-Identifier: Apache-2.0
"""Rank 1 sends itself a signal in the midst of work; the others print their error and its delay.

Arguments: the signal's name, and a file, in a folder of the test's own, for the moment of the signal on the clock that
all processes share.
"""

import os
import signal
import sys
import time
from pathlib import Path

from ringtune.errors import EngineError
from tests.integration.plain_rank import allreduce, join_together, say

SIGNAL_STEP = 50


def main() -> None:
    """Work until the loss is noticed."""
    number, moment = signal.Signals[sys.argv[1]], Path(sys.argv[2])
    world = join_together(moment.parent)
    try:
        for step in range(1_000_000):
            if world.rank == 1 and step == SIGNAL_STEP:
                moment.write_text(f"{time.monotonic()}\n", encoding="utf-8")
                os.kill(os.getpid(), number)
            allreduce(world, "x", [float(step)] * 1000)
    except EngineError as error:
        late_s = time.monotonic() - float(moment.read_text(encoding="utf-8"))
        say(f"rank {world.rank} got {type(error).__name__} after {late_s:.2f} s: {error}")
        try:
            allreduce(world, "y", [1.0])
        except EngineError as second:
            say(f"rank {world.rank} then got {type(second).__name__}")
        raise SystemExit(3) from error


main()
