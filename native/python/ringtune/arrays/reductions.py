# SPDX-License-Identifier: Apache-2.0
"""Allreduce and reducescatter of numpy arrays; arguments have their meaning in Horovod."""

from collections.abc import Sequence
from typing import Any

from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import (
    NO_GROUP,
    Group,
    Operand,
    ReduceOp,
    Reduction,
    check_reduction,
    reduction_of,
    scattered_rows,
    start_allreduce,
    start_reducescatter,
    world_of,
)
from ringtune.world.handles import Handle, wait_for_all
from ringtune.world.world import World

from .buffers import Array, checked_array, checked_rows, empty_array, number_operand, result_operand


def submit_allreduce(
    world: World,
    name: str,
    value: Any,
    reduction: Reduction,
    *,
    group: Group = NO_GROUP,
    is_gradient: bool = False,
) -> Handle:
    """Start to combine an array under a name that is final.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks.
        value: The array; it must not change before the end.
        reduction: Operation that combines the ranks' values.
        group: Group of operations that are reduced together, if it belongs to one.
        is_gradient: Whether it counts as gradient bytes of the step.

    Returns:
        A handle whose result is a new array.

    Raises:
        ConfigError: If the array cannot be taken.
        EngineError: If the world is lost.
    """
    source = _checked_allreduce(name, value, reduction)
    return _start_allreduce(world, name, source, reduction, group=group, is_gradient=is_gradient)


def submit_reducescatter(
    world: World, name: str, value: Any, reduction: Reduction, *, group: Group = NO_GROUP
) -> Handle:
    """Start to combine an array and keep this rank's rows, under a name that is final; see `submit_allreduce`."""
    source = _checked_reducescatter(name, value, reduction)
    return _start_reducescatter(world, name, source, reduction, group)


def allreduce_async(
    array: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine an array over all ranks.

    Args:
        array: Array of integers of 8 to 64 bits, float16, bfloat16 (of ml_dtypes), float32, float64 or bool, with any
            strides; it must not change before the end.
        op: `Average` (default), `Sum`, `Adasum`, `Min`, `Max` or `Product`.
        name: Key that matches the ranks' arrays; without one, calls are matched by their order.
        prescale_factor: Factor of the array before the reduction.
        postscale_factor: Factor of the result after it.
        process_set: Ranks that take part.

    Returns:
        A handle whose `wait()` returns a new array of the same shape.

    Raises:
        ConfigError: If the array cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    world = world_of(process_set)
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    source = _checked_allreduce("allreduce", array, reduction)  # before a name is used up, which ranks count alike
    return _start_allreduce(world, world.handles.name_for("allreduce", name), source, reduction)


def allreduce(
    array: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Combine an array over all ranks and return the result; see `allreduce_async`."""
    handle = allreduce_async(
        array,
        op=op,
        name=name,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        process_set=process_set,
    )
    result: Array = handle.wait()
    return result


def grouped_allreduce(
    arrays: Sequence[Any],
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Combine several arrays over all ranks: all of them together, or none if one fails; see `allreduce_async`.

    Args:
        arrays: Arrays to reduce, as many on every rank; those at one position meet.
        op: See `allreduce_async`.
        name: Key that matches the ranks' groups.
        prescale_factor: See `allreduce_async`.
        postscale_factor: See `allreduce_async`.
        process_set: See `allreduce_async`.
    """
    world = world_of(process_set)
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    sources = [_checked_allreduce("grouped_allreduce", array, reduction) for array in arrays]
    base = world.handles.name_for("grouped_allreduce", name)
    group = Group(base, len(sources))
    handles = [
        _start_allreduce(world, f"{base}.{position}", source, reduction, group=group)
        for position, source in enumerate(sources)
    ]
    return wait_for_all(handles)


def reducescatter_async(
    array: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine an array over all ranks and keep this rank's rows of the result.

    Args:
        array: Array of at least one dimension; equal shapes on all ranks. Else as for `allreduce_async`.
        op: `Average` (default), `Sum`, `Min`, `Max` or `Product`.
        name: See `allreduce_async`.
        prescale_factor: See `allreduce_async`.
        postscale_factor: See `allreduce_async`.
        process_set: See `allreduce_async`.

    Returns:
        A handle whose `wait()` returns `rows // size` rows, one more on the first `rows % size` ranks.

    Raises:
        ConfigError: If the array cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    return _start_reducescatters("reducescatter", [array], name, reduction, process_set)[0]


def reducescatter(
    array: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Combine an array over all ranks and return this rank's rows; see `reducescatter_async`."""
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    result: Array = _start_reducescatters("reducescatter", [array], name, reduction, process_set)[0].wait()
    return result


def grouped_reducescatter(
    arrays: Sequence[Any],
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[Array]:
    """Combine and scatter several arrays, all together or none; see `reducescatter_async`."""
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    return wait_for_all(_start_reducescatters("grouped_reducescatter", arrays, name, reduction, process_set))


def _checked_allreduce(operation: str, value: Any, reduction: Reduction) -> Operand:
    source = number_operand(operation, checked_array(operation, value))
    check_reduction(operation, source.dtype, reduction)
    return source


def _start_allreduce(
    world: World,
    name: str,
    source: Operand,
    reduction: Reduction,
    *,
    group: Group = NO_GROUP,
    is_gradient: bool = False,
) -> Handle:
    target = result_operand(source)
    operands = (source, target)
    return start_allreduce(
        world, name, operands, reduction, lambda _: target.owner, group=group, is_gradient=is_gradient
    )


def _start_reducescatters(
    operation: str, values: Sequence[Any], name: str | None, reduction: Reduction, process_set: ProcessSet
) -> list[Handle]:
    world = world_of(process_set)
    sources = [_checked_reducescatter(operation, value, reduction) for value in values]
    base = world.handles.name_for(operation, name)
    is_grouped = operation.startswith("grouped")
    group = Group(base, len(sources)) if is_grouped else NO_GROUP
    return [
        _start_reducescatter(world, f"{base}.{position}" if is_grouped else base, source, reduction, group)
        for position, source in enumerate(sources)
    ]


def _checked_reducescatter(operation: str, value: Any, reduction: Reduction) -> Operand:
    source = number_operand(operation, checked_rows(operation, value))
    check_reduction(operation, source.dtype, reduction)
    return source


def _start_reducescatter(world: World, name: str, source: Operand, reduction: Reduction, group: Group) -> Handle:
    rows, *row = source.shape
    target = empty_array((scattered_rows(rows, world.rank, world.size), *row), source.owner.dtype)
    operands = (source, number_operand(name, target))
    return start_reducescatter(world, name, operands, reduction, lambda _: target, group=group)
