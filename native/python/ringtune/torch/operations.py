# SPDX-License-Identifier: Apache-2.0
"""The collectives of `ringtune.torch`, with Horovod's names and meanings.

Every operation has an asynchronous form that returns a handle; `synchronize` waits for it and returns the result.
Ranks are matched by name; without one, the n-th operation of a kind on one rank meets the n-th on the others.
Results carry no gradient.
"""

from collections.abc import Callable
from enum import IntEnum
from typing import Any

import torch

from ringtune.errors import ConfigError, RingtuneError
from ringtune.handles import Pending
from ringtune.session import SESSION
from ringtune.world import World

from .buffers import REDUCIBLE_DTYPES, Buffer, buffer_of, check_tensor, check_writable, dtype_number, mark_changed


class ReduceOp(IntEnum):
    """How allreduce combines; the numbers are the engine's. Average of integers rounds towards minus infinity."""

    AVERAGE = 0
    SUM = 1


Average = ReduceOp.AVERAGE
Sum = ReduceOp.SUM


def allreduce_async(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *, op: ReduceOp | None = None
) -> int:
    """Start to combine a tensor over all ranks, leaving it as it is.

    Args:
        tensor: float32, float64, int32 or int64 in CPU memory; it must not change before `synchronize`.
        average: Horovod's older spelling of `op`; give one of them.
        name: Under which the ranks' tensors meet.
        op: `Average` (default) or `Sum`.

    Returns:
        A handle for `poll` and `synchronize`; the latter returns a new tensor of the same shape.

    Raises:
        ConfigError: If the tensor cannot be taken or both `average` and `op` are given.
        EngineError: If the world is lost.
    """
    source = buffer_of(check_tensor("allreduce", tensor, REDUCIBLE_DTYPES))
    target = source.like(torch.empty_like(source.memory, requires_grad=False))
    return _start_allreduce(source, target, name, _reduce_op(average, op), lambda: target.memory)


def allreduce(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *, op: ReduceOp | None = None
) -> torch.Tensor:
    """Combine a tensor over all ranks and return the result; see `allreduce_async`."""
    result: torch.Tensor = synchronize(allreduce_async(tensor, average, name, op=op))
    return result


def allreduce_async_(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *, op: ReduceOp | None = None
) -> int:
    """Start to combine a tensor over all ranks in place; arguments, result and errors as for `allreduce_async`."""
    check_writable("allreduce_", check_tensor("allreduce_", tensor, REDUCIBLE_DTYPES))
    buffer = buffer_of(tensor)
    return _start_allreduce(buffer, buffer, name, _reduce_op(average, op), _into(tensor, buffer))


def allreduce_(
    tensor: torch.Tensor, average: bool | None = None, name: str | None = None, *, op: ReduceOp | None = None
) -> torch.Tensor:
    """Combine a tensor over all ranks in place and return it; see `allreduce_async`."""
    result: torch.Tensor = synchronize(allreduce_async_(tensor, average, name, op=op))
    return result


def submit_gradient(world: World, name: str, gradient: torch.Tensor) -> int:
    """Start to average a gradient in place, counted as gradient bytes of the step.

    Raises:
        ConfigError: If the gradient is sparse, not in CPU memory or of another dtype than allreduce supports.
        EngineError: If the world is lost.
    """
    buffer = buffer_of(check_tensor(f"the reduction of {name}", gradient, REDUCIBLE_DTYPES))
    handle = world.engine.allreduce_async(
        name,
        buffer.memory.data_ptr(),
        buffer.memory.data_ptr(),
        buffer.shape,
        buffer.dtype_number,
        int(Average),
        is_gradient=True,
    )
    finish = _copy_back(gradient, buffer) if buffer.is_copy else _nothing
    world.handles.add(handle, Pending((gradient, buffer.memory), finish))
    return handle


def broadcast_async_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> int:
    """Start to overwrite a tensor with the root's.

    Args:
        tensor: Any dtype that the engine knows, in CPU memory; same shape and dtype on all ranks.
        root_rank: Whose values all get.
        name: Under which the ranks' tensors meet.

    Returns:
        A handle; `synchronize` returns `tensor`.

    Raises:
        ConfigError: If the tensor cannot be taken or there is no such rank.
        EngineError: If the world is lost.
    """
    world = SESSION.require()
    check_writable("broadcast_", check_tensor("broadcast_", tensor))
    if not 0 <= root_rank < world.size:
        raise ConfigError(f"root_rank={root_rank} is no rank; there are ranks 0 to {world.size - 1}")
    buffer = buffer_of(tensor)
    full_name = world.handles.name_for("broadcast", name)
    handle = world.engine.broadcast_async(
        full_name, buffer.memory.data_ptr(), buffer.shape, buffer.dtype_number, root_rank
    )
    world.handles.add(handle, Pending((tensor, buffer.memory), _into(tensor, buffer)))
    return handle


def broadcast_(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Overwrite a tensor with the root's and return it; see `broadcast_async_`."""
    result: torch.Tensor = synchronize(broadcast_async_(tensor, root_rank, name))
    return result


def broadcast_async(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> int:
    """Start to copy the root's tensor into a new one; arguments and errors as for `broadcast_async_`."""
    return broadcast_async_(check_tensor("broadcast", tensor).detach().clone(), root_rank, name)


def broadcast(tensor: torch.Tensor, root_rank: int, name: str | None = None) -> torch.Tensor:
    """Return a copy of the root's tensor; see `broadcast_async_`."""
    result: torch.Tensor = synchronize(broadcast_async(tensor, root_rank, name))
    return result


def allgather_async(tensor: torch.Tensor, name: str | None = None) -> int:
    """Start to gather every rank's tensor.

    Args:
        tensor: Any dtype that the engine knows, in CPU memory; same shape and dtype on all ranks. It must not change
            before `synchronize`.
        name: Under which the ranks' tensors meet.

    Returns:
        A handle; `synchronize` returns the ranks' tensors one after the other along the first dimension.

    Raises:
        ConfigError: If the tensor cannot be taken.
        EngineError: If the world is lost.
    """
    world = SESSION.require()
    source = check_tensor("allgather", tensor).detach().contiguous()
    shape = tuple(source.shape) or (1,)
    target = torch.empty((world.size * shape[0], *shape[1:]), dtype=source.dtype)
    number = dtype_number(source.dtype)
    full_name = world.handles.name_for("allgather", name)
    handle = world.engine.allgather_async(full_name, source.data_ptr(), target.data_ptr(), shape, number)
    world.handles.add(handle, Pending((source, target), lambda: target))
    return handle


def allgather(tensor: torch.Tensor, name: str | None = None) -> torch.Tensor:
    """Return every rank's tensor, along the first dimension; see `allgather_async`."""
    result: torch.Tensor = synchronize(allgather_async(tensor, name))
    return result


def poll(handle: int) -> bool:
    """Return whether `synchronize` would return, or raise, at once."""
    return SESSION.require().engine.poll(handle)


def synchronize(handle: int) -> Any:
    """Wait for an asynchronous operation and return its result.

    Args:
        handle: From an operation that has not been synchronized yet.

    Raises:
        ConfigError: If there is no such handle.
        MismatchError: If ranks submitted different shapes, dtypes or operations.
        EngineError: If the world is lost.
    """
    return synchronize_in(SESSION.require(), handle)


def synchronize_in(world: World, handle: int) -> Any:
    """Wait for an operation of a given world; see `synchronize`."""
    pending = world.handles.get(handle)
    if pending is None:
        raise ConfigError(f"there is no operation with handle {handle}; was it synchronized before?")
    try:
        world.engine.wait(handle)
    except RingtuneError:  # the engine has let go of the buffers; Ctrl-C, in contrast, leaves all as it is
        world.handles.forget(handle)
        raise
    world.handles.forget(handle)
    return pending.finish()


def barrier() -> None:
    """Return when every rank has called it; raises `EngineError` if the world is lost."""
    SESSION.require().engine.barrier()


def _start_allreduce(
    source: Buffer, target: Buffer, name: str | None, op: ReduceOp, finish: Callable[[], torch.Tensor]
) -> int:
    world = SESSION.require()
    handle = world.engine.allreduce_async(
        world.handles.name_for("allreduce", name),
        source.memory.data_ptr(),
        target.memory.data_ptr(),
        source.shape,
        source.dtype_number,
        int(op),
        is_gradient=False,
    )
    world.handles.add(handle, Pending((source.memory, target.memory), finish))
    return handle


def _reduce_op(average: bool | None, op: ReduceOp | None) -> ReduceOp:
    if op is not None and average is not None:
        raise ConfigError("give either `op` or `average`, not both; `op=ringtune.torch.Sum` is average=False")
    if op is None:
        return Sum if average is False else Average
    if op not in tuple(ReduceOp):
        raise ConfigError(f"op={op!r} is not supported; this version has Average and Sum")
    return ReduceOp(op)


def _into(tensor: torch.Tensor, buffer: Buffer) -> Callable[[], torch.Tensor]:
    """Return what brings the result into the caller's tensor and returns it."""

    def finish() -> torch.Tensor:
        if buffer.is_copy:
            tensor.detach().copy_(buffer.memory)
        mark_changed(tensor)
        return tensor

    return finish


def _copy_back(gradient: torch.Tensor, buffer: Buffer) -> Callable[[], None]:
    def finish() -> None:
        gradient.copy_(buffer.memory)

    return finish


def _nothing() -> None:
    return None
