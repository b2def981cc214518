# SPDX-License-Identifier: Apache-2.0
"""Allreduces of many sizes, each with a sum that every rank checks; rank 0 prints how many were right on all ranks."""

from array import array

from tests.integration.plain_rank import join, say, submit, wait

SIZES = (1, 4_099, 16_384, 50_001, 131_072, 300_007, 5)
"""Elements; in chunks of 16 KiB up to 147 of them."""


def main() -> None:
    """Reduce, check, and count."""
    world = join()
    right = array("d", [0.0])
    for number, size in enumerate(SIZES):
        own = array("d", (world.rank + 1.0 + i % 7 for i in range(size)))
        wait(world, submit(world, f"t{number}", own))
        ranks = world.size
        expected = array("d", (ranks * (ranks + 1) / 2 + ranks * (i % 7) for i in range(size)))
        right[0] += own == expected
    wait(world, submit(world, "right", right))
    if world.rank == 0:
        say(f"right {right[0]:g} of {len(SIZES) * world.size}")
    world.shutdown()


main()
