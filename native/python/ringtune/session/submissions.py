# SPDX-License-Identifier: Apache-2.0
"""The one way from a front end into the engine: pointers, shapes and dtypes in, handles out.

A front end describes its tensors as `Operand`s and makes its result of the engine's; names, checks and objects that
must live until the engine is done are the same for all. This module knows no framework.

Dtypes are the engine's numbers, positions in `DTYPES`.
"""

from collections.abc import Sequence
from enum import IntEnum
from operator import index
from typing import Any, NamedTuple

from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.process_sets import ProcessSet
from ringtune.session.session import SESSION
from ringtune.world.handles import DeviceOperation, Finish, Handle, Operation, Streams
from ringtune.world.world import World

REDUCIBLE = (
    *("uint8", "int8", "int32", "int64", "float16", "bfloat16", "float32", "float64", "bool"),
    *("int16", "uint16", "uint32", "uint64"),
)
"""Names of the dtypes that the engine computes with, in the order of its numbers."""

DTYPES = (
    *REDUCIBLE,
    *("complex32", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"),
    *(f"int{bits}" for bits in range(1, 8)),
    *(f"uint{bits}" for bits in range(1, 8)),
    *("bits1x8", "bits2x4", "bits4x2", "bits8", "bits16"),
)
"""Names of all dtypes in the order of the engine's numbers (`_engine.DTYPES`): broadcast, allgather and alltoall move
every one of them."""

_FLOATS = frozenset(REDUCIBLE.index(name) for name in ("float16", "bfloat16", "float32", "float64"))
_BOOL = DTYPES.index("bool")


class ReduceOp(IntEnum):
    """Operation that combines the ranks' values; the numbers are the engine's and Horovod's.

    Average of integers truncates, as Horovod's does; bool takes Sum and Max (or), Product and Min (and); Adasum
    takes floats.
    """

    AVERAGE = 0
    SUM = 1
    ADASUM = 2
    MIN = 3
    MAX = 4
    PRODUCT = 5


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM
Adasum = ReduceOp.ADASUM
Min = ReduceOp.MIN
Max = ReduceOp.MAX
Product = ReduceOp.PRODUCT

_ALL_OPS = frozenset(ReduceOp)
_BOOL_OPS = frozenset({Sum, Min, Max, Product})


class Operand(NamedTuple):
    """Memory that the engine reads or writes.

    Attributes:
        pointer: Address of the first element; elements are dense, in the order of the shape.
        shape: Shape that ranks compare.
        dtype: The engine's number.
        owner: The object that must live so that the memory does.
        device: The CUDA device's number, as the framework counts; -1 for CPU memory.
        stream: On a device, the caller's current stream: the memory is ready, or free to be written, once the work
            enqueued there so far is done.
        streams: On a device, the framework's streams.
        size_bytes: Size of the memory where it is offered for rows of other ranks; 0 where it need not be known.
    """

    pointer: int
    shape: tuple[int, ...]
    dtype: int
    owner: Any
    device: int = -1
    stream: int = 0
    streams: Streams | None = None
    size_bytes: int = 0


class Reduction(NamedTuple):
    """A reduction with its scales: the result is `postscale * op(prescale * x)`."""

    op: ReduceOp = Average
    prescale: float = 1.0
    postscale: float = 1.0


PLAIN_AVERAGE = Reduction()


class Group(NamedTuple):
    """Tensors that are reduced or gathered together, once all `size` of them are ready everywhere, or fail together."""

    name: str = ""
    size: int = 0


NO_GROUP = Group()


def world_of(process_set: ProcessSet) -> World:
    """Return the world of a process set.

    Raises:
        ConfigError: Before `init()`, for a set that was not added, and where this rank is not in the set.
    """
    if process_set.process_set_id is None:
        SESSION.require()  # before init() that is what is missing
    return process_set.world


def reduction_of(
    average: bool | None = None, op: int | None = None, prescale_factor: float = 1.0, postscale_factor: float = 1.0
) -> Reduction:
    """Return how to combine, from Horovod's arguments.

    Args:
        average: Horovod's older spelling of `op`; give one of them.
        op: A `ReduceOp`; Average where neither is given.
        prescale_factor: Factor of the values before the reduction.
        postscale_factor: Factor of the results after it.

    Raises:
        ConfigError: If both `average` and `op` are given, or there is no such operation.
    """
    if op is not None and average is not None:
        raise ConfigError("give either `op` or `average`, not both; op=Sum is average=False")
    if op is None:
        op = Sum if average is False else Average
    if op not in _ALL_OPS:
        names = ", ".join(member.name.title() for member in ReduceOp)
        raise ConfigError(f"op={op!r} is no reduction; there are {names}")
    return Reduction(ReduceOp(op), float(prescale_factor), float(postscale_factor))


def reducible_number(operation: str, name: str) -> int:
    """Return the engine's number for a dtype that it computes with.

    Args:
        operation: Name of the operation, for the message.
        name: The dtype's.

    Raises:
        WrongTypeError: If it does not; names those with which it does.
    """
    if name not in REDUCIBLE:
        raise WrongTypeError(
            f"{operation} does not support {name}; it supports {', '.join(REDUCIBLE)}: convert it first. The parts of "
            "a complex one are reduced as floats"
        )
    return REDUCIBLE.index(name)


def check_reduction(operation: str, dtype: int, reduction: Reduction) -> None:
    """Refuse a reduction that the engine does not have.

    Args:
        operation: Name of the operation, for the message.
        dtype: The engine's number.
        reduction: The operation and the scales.

    Raises:
        ConfigError: If the dtype does not take the operation or the scales; names the supported ones. A
            `WrongTypeError` if it takes no operation.
    """
    reducible_number(operation, DTYPES[dtype])
    if reduction.op is Adasum and dtype not in _FLOATS:
        names = ", ".join(DTYPES[number] for number in sorted(_FLOATS))
        raise ConfigError(f"{operation} with op=Adasum does not support {DTYPES[dtype]}; it supports {names}")
    if dtype == _BOOL:
        if reduction.op not in _BOOL_OPS:
            raise ConfigError(
                f"{operation} with op={reduction.op.name.title()} does not support bool; bool takes Sum and Max (or), "
                "Product and Min (and)"
            )
        if (reduction.prescale, reduction.postscale) != (1.0, 1.0):
            raise ConfigError(f"{operation} cannot scale bool; leave prescale_factor and postscale_factor at 1.0")


def check_splits(splits: Sequence[int] | None, rows: int, world_size: int) -> list[int]:
    """Return how many rows go to each rank of an alltoall.

    Args:
        splits: Splits that the caller gave; None for equal parts.
        rows: First dimension of the tensor.
        world_size: Ranks of the set.

    Raises:
        ConfigError: If they do not fit; a `WrongTypeError` if they are no whole numbers.
    """
    if splits is None:
        if rows % world_size:
            raise ConfigError(
                f"alltoall cannot split {rows} rows equally over {world_size} ranks; give splits, one number per rank"
            )
        return [rows // world_size] * world_size
    try:
        counts = [index(count) for count in splits]
    except TypeError as error:
        raise WrongTypeError(
            f"splits={splits!r} are not possible; alltoall needs whole numbers, one per rank"
        ) from error
    if len(counts) != world_size or min(counts) < 0 or sum(counts) != rows:
        raise ConfigError(
            f"splits={counts} do not fit: alltoall needs {world_size} numbers >= 0, one per rank, that add up to the "
            f"tensor's {rows} rows"
        )
    return counts


def scattered_rows(rows: int, rank: int, world_size: int) -> int:
    """Return how many of `rows` a rank keeps after a reducescatter: the first ranks take one of the rest each."""
    return rows // world_size + (1 if rank < rows % world_size else 0)


def start_allreduce(
    world: World,
    name: str,
    operands: tuple[Operand, Operand],
    reduction: Reduction,
    finish: Finish,
    *,
    group: Group = NO_GROUP,
    is_gradient: bool = False,
) -> Handle:
    """Start to combine a tensor over all ranks.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks; from `HandleTable.name_for`, or unique by other means.
        operands: Source and target, of one shape and dtype; may be the same memory.
        reduction: Checked by `check_reduction`.
        finish: Makes the result.
        group: Group of operations that are reduced together, if it belongs to one.
        is_gradient: Whether it counts as gradient bytes of the step.

    Raises:
        EngineError: If the world is lost.
    """
    source, target = operands
    number = world.engine.allreduce_async(
        name,
        source.pointer,
        target.pointer,
        source.shape,
        source.dtype,
        reduction.op,
        is_gradient,
        reduction.prescale,
        reduction.postscale,
        group.name,
        group.size,
        source.device,
        source.stream,
    )
    return _in_flight(world, number, operands, finish)


def start_reducescatter(
    world: World,
    name: str,
    operands: tuple[Operand, Operand],
    reduction: Reduction,
    finish: Finish,
    *,
    group: Group = NO_GROUP,
) -> Handle:
    """Start to combine a tensor and keep this rank's rows of it; the target has `scattered_rows` of them."""
    source, target = operands
    number = world.engine.reducescatter_async(
        name,
        source.pointer,
        target.pointer,
        source.shape,
        source.dtype,
        reduction.op,
        reduction.prescale,
        reduction.postscale,
        group.name,
        group.size,
        source.device,
        source.stream,
    )
    return _in_flight(world, number, operands, finish)


def start_broadcast(world: World, name: str, operand: Operand, root: int, finish: Finish) -> Handle:
    """Start to overwrite a tensor with the root's; `root` is its rank in this world, from `ProcessSet.rank_of`."""
    number = world.engine.broadcast_async(
        name, operand.pointer, operand.shape, operand.dtype, root, operand.device, operand.stream
    )
    return _in_flight(world, number, (operand,), finish)


def start_allgather(
    world: World,
    name: str,
    source: Operand,
    finish: Finish,
    *,
    group: Group = NO_GROUP,
    is_gradient: bool = False,
    output: Operand | None = None,
) -> Handle:
    """Start to gather every rank's rows; `finish` gets them in the engine's result, with the rows of each rank.

    Args:
        world: World whose ranks take part.
        name: See `start_allreduce`.
        source: This rank's rows.
        finish: Makes the result.
        group: Group of operations that are gathered together, if it belongs to one.
        is_gradient: Whether it counts as gradient bytes of the step.
        output: Memory that takes the rows, if they have exactly its size.

    Raises:
        EngineError: If the world is lost.
    """
    number = world.engine.allgather_async(
        name,
        source.pointer,
        source.shape,
        source.dtype,
        group.name,
        group.size,
        is_gradient,
        source.device,
        source.stream,
        *_place(output),
    )
    return _in_flight(world, number, (source,) if output is None else (source, output), finish)


def start_alltoall(
    world: World,
    name: str,
    source: Operand,
    splits: Sequence[int],
    finish: Finish,
    *,
    output: Operand | None = None,
) -> Handle:
    """Start to send rows to every rank; `finish` gets the received ones in the engine's result, in rank order.

    They are in the memory of `output`, if it is given and has room for exactly these rows.
    """
    number = world.engine.alltoall_async(
        name,
        source.pointer,
        source.shape,
        source.dtype,
        splits,
        source.device,
        source.stream,
        *_place(output),
    )
    return _in_flight(world, number, (source,) if output is None else (source, output), finish)


def start_join(world: World, finish: Finish) -> Handle:
    """Start to take part in other ranks' allreduces with zeros, until every rank has joined."""
    return Operation(world.engine, world.handles, world.engine.join_async(), None, finish)


def _place(output: Operand | None) -> tuple[int, int]:
    """Return address and bytes of the memory that is offered for rows whose number only the engine knows."""
    return (0, 0) if output is None else (output.pointer, output.size_bytes)


def _in_flight(world: World, number: int, operands: tuple[Operand, ...], finish: Finish) -> Handle:
    kind = Operation if operands[0].device < 0 else DeviceOperation
    return kind(world.engine, world.handles, number, operands, finish)
