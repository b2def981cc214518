# SPDX-License-Identifier: Apache-2.0
"""Checks every collective on every rank against what it must give; any difference ends the rank. Numpy, no torch."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ringtune.session.submissions import DTYPES
from ringtune.world.world import World
from tests.integration.plain_rank import SUM, join, say

Array = npt.NDArray[Any]
# None, few, several chunks; the last is more than one message of the MPI transport's (16 MiB).
ELEMENTS = (0, 1, 1000, 65_537, 5_000_000)


def number_of(array: Array) -> int:
    """Return the engine's number for an array's dtype."""
    return DTYPES.index(array.dtype.name)


def pattern(elements: int, dtype: str, seed: int) -> Array:
    """Return values that differ from place to place and from rank to rank, small enough to be added exactly."""
    return ((np.arange(elements) + 7 * seed) % 61).astype(dtype)


def taken(world: World, handle: int, like: Array) -> tuple[Array, list[int]]:
    """Wait for a result; return its rows with the dtype and row shape of `like`, and how many came from each rank."""
    result = world.engine.wait(handle)
    assert result is not None
    return result.memory.view(like.dtype).reshape(-1, *like.shape[1:]), result.rows


def check_allreduce(world: World) -> None:
    """Sums of all sizes."""
    for dtype in ("float32", "float64", "int64", "uint8"):
        for elements in ELEMENTS:
            mine, total = pattern(elements, dtype, world.rank), np.empty(elements, dtype)
            wanted = sum((pattern(elements, dtype, rank) for rank in range(world.size)), np.zeros(elements, dtype))
            arguments = (mine.ctypes.data, total.ctypes.data, mine.shape, number_of(mine), SUM)
            world.engine.wait(world.engine.allreduce_async(f"sum.{dtype}.{elements}", *arguments, False))
            assert np.array_equal(wanted, total), (dtype, elements)


def check_reducescatter(world: World) -> None:
    """Each rank gets its rows of the sum."""
    rows = 4 * world.size + 1
    mine, wanted = pattern(rows * 3, "float32", world.rank).reshape(rows, 3), np.zeros((rows, 3), np.float32)
    for rank in range(world.size):
        wanted += pattern(rows * 3, "float32", rank).reshape(rows, 3)
    own_rows = np.array_split(wanted, world.size)[world.rank]
    result = np.empty_like(own_rows)
    arguments = (mine.ctypes.data, result.ctypes.data, mine.shape, number_of(mine), SUM)
    world.engine.wait(world.engine.reducescatter_async("scattered", *arguments))
    assert np.array_equal(own_rows, result)


def check_broadcast(world: World) -> None:
    """Every rank is the root once."""
    for root in range(world.size):
        for elements in ELEMENTS:
            memory = pattern(elements, "int32", world.rank)
            arguments = (memory.ctypes.data, memory.shape, number_of(memory), root)
            world.engine.wait(world.engine.broadcast_async(f"from.{root}.{elements}", *arguments))
            assert np.array_equal(pattern(elements, "int32", root), memory), (root, elements)


def check_allgather(world: World) -> None:
    """Each rank gives another number of rows, the first none; then blocks of more than one message."""
    for name, rows in (("ragged", range(world.size)), ("large", [2_500_000] * world.size)):
        parts = [pattern(2 * count, "float32", rank).reshape(count, 2) for rank, count in enumerate(rows)]
        mine = parts[world.rank]
        handle = world.engine.allgather_async(name, mine.ctypes.data, mine.shape, number_of(mine))
        gathered, its_rows = taken(world, handle, mine)
        assert list(rows) == its_rows
        assert np.array_equal(np.concatenate(parts), gathered), name


def check_alltoall(world: World) -> None:
    """Rank a sends a + b rows to rank b."""

    def sent(source: int, target: int) -> Array:
        return pattern(2 * (source + target), "int64", 10 * source + target).reshape(-1, 2)

    ranks = range(world.size)
    mine = np.concatenate([sent(world.rank, target) for target in ranks])
    splits: Sequence[int] = [world.rank + target for target in ranks]
    handle = world.engine.alltoall_async("exchanged", mine.ctypes.data, mine.shape, number_of(mine), splits)
    received, rows = taken(world, handle, mine)
    assert [source + world.rank for source in ranks] == rows
    assert np.array_equal(np.concatenate([sent(source, world.rank) for source in ranks]), received)


def main() -> None:
    """Run every check."""
    world = join()
    for check in (check_allreduce, check_reducescatter, check_broadcast, check_allgather, check_alltoall):
        check(world)
    world.engine.barrier()
    say(f"rank {world.rank}: all as it must be, by {world.carrier}")


if __name__ == "__main__":
    main()
