# SPDX-License-Identifier: Apache-2.0
"""Allgather, alltoall and broadcast of numpy arrays: data moves and is not changed, so that any dtype will do."""

from collections.abc import Sequence
from typing import Any

from ringtune import _engine
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import (
    NO_GROUP,
    Group,
    check_splits,
    start_allgather,
    start_alltoall,
    start_broadcast,
    world_of,
)
from ringtune.world.handles import Handle, wait_for_all
from ringtune.world.world import World

from .buffers import Array, any_operand, checked_array, checked_rows, empty_array, rows_of

Gathered = tuple[Array, list[int]]
"""The ranks' rows in rank order, and how many each has brought."""


def submit_allgather(
    world: World, name: str, value: Any, *, group: Group = NO_GROUP, is_gradient: bool = False
) -> Handle:
    """Start to gather rows under a name that is final.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks.
        value: This rank's rows; they must not change before the end.
        group: Group of operations that are gathered together, if it belongs to one.
        is_gradient: Whether it counts as gradient bytes of the step.

    Returns:
        A handle whose result is `Gathered`.

    Raises:
        ConfigError: If the array cannot be taken.
        EngineError: If the world is lost.
    """
    source = checked_rows(name, value)
    return start_allgather(world, name, any_operand(source), _gathered(source), group=group, is_gradient=is_gradient)


def submit_alltoall(world: World, name: str, value: Any, splits: Sequence[int]) -> Handle:
    """Start to send rows to every rank under a name that is final; see `submit_allgather`.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks.
        value: Rows for rank 0, for rank 1, and so on; they must not change before the end.
        splits: Number of rows for each rank; see `check_splits`.
    """
    source = checked_rows(name, value)
    return start_alltoall(world, name, any_operand(source), splits, _gathered(source))


def submit_broadcast(world: World, name: str, value: Any, root: int) -> Handle:
    """Start to copy the root's array into a new one under a name that is final.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks.
        value: Array of the same shape and dtype on all ranks.
        root: The root's rank in this world.

    Returns:
        A handle whose result is the new array.

    Raises:
        ConfigError: If the array cannot be taken.
        EngineError: If the world is lost.
    """
    source = checked_array(name, value)
    target = empty_array(source.shape, source.dtype)
    if world.rank == root:
        target[...] = source
    return start_broadcast(world, name, any_operand(target), root, lambda _: target)


def allgather_async(array: Any, *, name: str | None = None, process_set: ProcessSet = global_process_set) -> Handle:
    """Start to gather every rank's rows.

    Args:
        array: Array of any dtype and at least one dimension; the first alone may differ between ranks. It must
            not change before the end.
        name: Key that matches the ranks' arrays; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Returns:
        A handle whose `wait()` returns the ranks' rows in rank order, and how many each has brought.

    Raises:
        ConfigError: If the array cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    source = checked_rows("allgather", array)
    return submit_allgather(world, world.handles.name_for("allgather", name), source)


def allgather(array: Any, *, name: str | None = None, process_set: ProcessSet = global_process_set) -> Array:
    """Return every rank's rows in rank order; see `allgather_async`."""
    gathered: Gathered = allgather_async(array, name=name, process_set=process_set).wait()
    return gathered[0]


def grouped_allgather(
    arrays: Sequence[Any], *, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Gathered]:
    """Gather several arrays, all together or none; see `allgather_async`.

    Returns:
        For each array the ranks' rows in rank order, and how many each has brought.
    """
    world = world_of(process_set)
    sources = [checked_rows("grouped_allgather", array) for array in arrays]
    base = world.handles.name_for("grouped_allgather", name)
    group = Group(base, len(sources))
    return wait_for_all(
        [submit_allgather(world, f"{base}.{position}", source, group=group) for position, source in enumerate(sources)]
    )


def alltoall_async(
    array: Any,
    splits: Sequence[int] | None = None,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to send rows to every rank, and to receive theirs.

    Args:
        array: See `allgather_async`.
        splits: Number of rows for each rank, in rank order; equal parts if left out.
        name: Key that matches the ranks' arrays; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Returns:
        A handle whose `wait()` returns the received rows in rank order, and how many came from each rank.

    Raises:
        ConfigError: If the array cannot be taken, the splits do not fit or this rank is not in the set.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    source = checked_rows("alltoall", array)
    counts = check_splits(splits, source.shape[0], world.size)
    return submit_alltoall(world, world.handles.name_for("alltoall", name), source, counts)


def alltoall(
    array: Any,
    splits: Sequence[int] | None = None,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Gathered:
    """Send rows to every rank; return the received ones and how many came from each rank; see `alltoall_async`."""
    gathered: Gathered = alltoall_async(array, splits, name=name, process_set=process_set).wait()
    return gathered


def broadcast_async(
    array: Any, root_rank: int, *, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Start to copy the root's array into a new one.

    Args:
        array: Array of any dtype; same shape and dtype on all ranks.
        root_rank: Rank of the whole job whose values all ranks get.
        name: Key that matches the ranks' arrays; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Returns:
        A handle whose `wait()` returns the new array.

    Raises:
        ConfigError: If the array cannot be taken, there is no such rank, or this rank is not in the set.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    root = process_set.rank_of(root_rank)
    source = checked_array("broadcast", array)  # before a name is used up
    return submit_broadcast(world, world.handles.name_for("broadcast", name), source, root)


def broadcast(
    array: Any, root_rank: int, *, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Array:
    """Return a copy of the root's array; see `broadcast_async`."""
    result: Array = broadcast_async(array, root_rank, name=name, process_set=process_set).wait()
    return result


def _gathered(source: Array) -> Any:
    """Return a function that makes `Gathered` of the engine's result."""

    def finish(result: _engine.Result | None) -> Gathered:
        return rows_of(result, source), [] if result is None else list(result.rows)

    return finish
