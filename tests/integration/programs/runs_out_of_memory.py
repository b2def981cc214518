# SPDX-License-Identifier: Apache-2.0
"""Rank 1 takes more memory than its control group allows, in the midst of work; the others print their errors.

Arguments: the group's folder, and a folder of the test's own.
"""

import sys
from pathlib import Path

from ringtune.errors import EngineError
from tests.integration.memory_groups import enter
from tests.integration.plain_rank import allreduce, join_together, say

HUNGRY_STEP = 50
PIECE_BYTES = 8 << 20


def main() -> None:
    """Work until the loss is noticed."""
    world = join_together(Path(sys.argv[2]))
    pieces: list[bytearray] = []
    try:
        for step in range(1_000_000):
            if world.rank == 1 and step == HUNGRY_STEP:
                enter(sys.argv[1])
                while True:
                    pieces.append(bytearray(b"x" * PIECE_BYTES))
            allreduce(world, "x", [float(step)] * 1000)
    except EngineError as error:
        say(f"rank {world.rank} got {type(error).__name__}: {error}")
        raise SystemExit(3) from error


main()
