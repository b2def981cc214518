# SPDX-License-Identifier: Apache-2.0
"""Allreduce of one tensor and of groups, with Horovod's names and meanings.

Every operation has an asynchronous form that returns a handle for `synchronize`; the synchronous ones that leave
their input as it is are differentiable for Sum and Average. Ranks are matched by name; without one, the n-th
operation of a kind on one rank meets the n-th on the others.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import (
    NO_GROUP,
    Average,
    Group,
    ReduceOp,
    Reduction,
    Sum,
    check_reduction,
    reduction_of,
    start_allreduce,
    world_of,
)
from ringtune.world.handles import Finish, Handle, HandleGroup

from .autograd import Tensors, apply
from .buffers import Buffer, buffer_of, check_tensor, check_writable, copy_into, dtype_number, mark_changed
from .compression import Compression, CompressorClass
from .untraced import untraced


@dataclass(frozen=True)
class Allreduce:
    """Request for an allreduce.

    Attributes:
        operation: Its name, for messages and for the names under which ranks meet.
        name: The caller's.
        reduction: Operation that combines the ranks' values.
        process_set: Ranks that take part.
        is_grouped: Whether the tensors are reduced all together or not at all.
    """

    operation: str
    name: str | None
    reduction: Reduction
    process_set: ProcessSet
    is_grouped: bool = False

    def start(self, tensors: Sequence[torch.Tensor], *, in_place: bool) -> list[Handle]:
        """Submit the tensors, once all were found to be fit.

        Raises:
            ConfigError: If one of them cannot be taken; none was submitted.
            EngineError: If the world is lost.
        """
        world = world_of(self.process_set)
        prepared = [self._prepare(tensor, in_place=in_place) for tensor in tensors]
        base = world.handles.name_for(self.operation, self.name)
        group = Group(base, len(prepared)) if self.is_grouped else NO_GROUP
        return [
            start_allreduce(
                world,
                f"{base}.{position}" if self.is_grouped else base,
                (source.operand(), target.operand()),
                self.reduction,
                finish,
                group=group,
            )
            for position, (source, target, finish) in enumerate(prepared)
        ]

    def forward(self, tensors: Tensors) -> Tensors:
        """See `Collective`."""
        return tuple(HandleGroup(self.start(tensors, in_place=False), list).wait())

    def backward(self, gradients: Tensors) -> Tensors:
        """See `Collective`; the gradient of a sum is the sum of the gradients, that of an average their average."""
        if self.reduction.op not in {Sum, Average}:
            raise ConfigError(
                f"{self.operation} with op={self.reduction.op.name.title()} has no gradient; use Sum or Average, or "
                "detach() the tensor"
            )
        name = None if self.name is None else f"{self.name}.gradient"
        return apply(Allreduce(self.operation, name, self.reduction, self.process_set, self.is_grouped), gradients)

    def _prepare(self, tensor: torch.Tensor, *, in_place: bool) -> tuple[Buffer, Buffer, Finish]:
        check_tensor(self.operation, tensor)
        check_reduction(self.operation, dtype_number(tensor.dtype), self.reduction)
        if in_place:
            check_writable(f"{self.operation}_", tensor)
            buffer = buffer_of(tensor)
            return buffer, buffer, into(tensor, buffer)
        source = buffer_of(tensor)
        target = source.like(torch.empty_like(source.memory, requires_grad=False))
        return source, target, lambda _: target.memory


def into(tensor: torch.Tensor, buffer: Buffer) -> Finish:
    """Return a function that brings a result from its buffer into the caller's tensor and returns that."""

    def finish(_: object) -> torch.Tensor:
        if buffer.is_copy:
            copy_into(tensor, buffer.memory)
        mark_changed(tensor)
        return tensor

    return finish


@untraced
def allreduce_async(  # noqa: PLR0917  (Horovod's signature)
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine a tensor over all ranks, leaving it as it is.

    Args:
        tensor: Integers of 8 to 64 bits, floats of 16 to 64, or bool, in CPU memory or on a CUDA device; it must not
            change before `synchronize`.
        average: Horovod's older spelling of `op`; give one of them.
        name: Key that matches the ranks' tensors.
        op: `Average` (default), `Sum`, `Adasum`, `Min`, `Max` or `Product`.
        prescale_factor: Factor of the tensor before the reduction.
        postscale_factor: Factor of the result after it.
        process_set: Ranks that take part.

    Returns:
        A handle; `synchronize` returns a new tensor of the same shape.

    Raises:
        ConfigError: If the tensor cannot be taken, both `average` and `op` are given, or this rank is not in the set.
        EngineError: If the world is lost.
    """
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    return Allreduce("allreduce", name, reduction, process_set).start([tensor], in_place=False)[0]


@untraced
def allreduce(  # noqa: PLR0917  (Horovod's signature)
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    compression: CompressorClass = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combine a tensor over all ranks and return the result, differentiably; see `allreduce_async`.

    Args:
        tensor: See `allreduce_async`.
        average: See `allreduce_async`.
        name: See `allreduce_async`.
        compression: Encoding of the tensor on the way, such as `Compression.fp16`.
        op: See `allreduce_async`.
        prescale_factor: See `allreduce_async`.
        postscale_factor: See `allreduce_async`.
        process_set: See `allreduce_async`.
    """
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    compressed, context = compression.compress(check_tensor("allreduce", tensor))
    (result,) = apply(Allreduce("allreduce", name, reduction, process_set), [compressed])
    return compression.decompress(result, context)


@untraced
def allreduce_async_(  # noqa: PLR0917  (Horovod's signature)
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine a tensor over all ranks in place; arguments and errors as for `allreduce_async`."""
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    return Allreduce("allreduce", name, reduction, process_set).start([tensor], in_place=True)[0]


@untraced
def allreduce_(  # noqa: PLR0917  (Horovod's signature)
    tensor: torch.Tensor,
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Combine a tensor over all ranks in place and return it; see `allreduce_async`."""
    handle = allreduce_async_(tensor, average, name, op, prescale_factor, postscale_factor, process_set)
    result: torch.Tensor = handle.wait()
    return result


@untraced
def grouped_allreduce_async(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine several tensors over all ranks: all of them together, or none if one fails.

    Args:
        tensors: Tensors, as many on every rank; those at one position meet. See `allreduce_async`.
        average: See `allreduce_async`.
        name: Key that matches the ranks' groups.
        op: See `allreduce_async`.
        prescale_factor: See `allreduce_async`.
        postscale_factor: See `allreduce_async`.
        process_set: See `allreduce_async`.

    Returns:
        One handle; `synchronize` returns a list of new tensors.

    Raises:
        ConfigError: If a tensor cannot be taken; none was submitted. Else as for `allreduce_async`.
        EngineError: If the world is lost.
    """
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    collective = Allreduce("grouped_allreduce", name, reduction, process_set, is_grouped=True)
    return HandleGroup(collective.start(tensors, in_place=False), list)


@untraced
def grouped_allreduce(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    compression: CompressorClass = Compression.none,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combine several tensors over all ranks and return the results, differentiably; see `grouped_allreduce_async`."""
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    pairs: list[tuple[torch.Tensor, Any]] = [
        compression.compress(check_tensor("grouped_allreduce", tensor)) for tensor in tensors
    ]
    collective = Allreduce("grouped_allreduce", name, reduction, process_set, is_grouped=True)
    results = apply(collective, [tensor for tensor, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs, strict=True)]


@untraced
def grouped_allreduce_async_(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to combine several tensors over all ranks in place; as for `grouped_allreduce_async`."""
    reduction = reduction_of(average, op, prescale_factor, postscale_factor)
    collective = Allreduce("grouped_allreduce", name, reduction, process_set, is_grouped=True)
    return HandleGroup(collective.start(tensors, in_place=True), list)


@untraced
def grouped_allreduce_(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[torch.Tensor],
    average: bool | None = None,
    name: str | None = None,
    op: ReduceOp | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> list[torch.Tensor]:
    """Combine several tensors over all ranks in place and return them; see `grouped_allreduce_async`."""
    handle = grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    results: list[torch.Tensor] = handle.wait()
    return results
