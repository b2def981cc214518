# SPDX-License-Identifier: Apache-2.0
"""Reducescatter of one tensor and of groups: every rank keeps its rows of the reduction. Horovod's names and meanings.

Of `rows` rows over `size` ranks each rank keeps `rows // size`, and the first `rows % size` ranks one more.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import (
    NO_GROUP,
    Average,
    Group,
    Operand,
    ReduceOp,
    Reduction,
    Sum,
    check_reduction,
    reduction_of,
    scattered_rows,
    start_reducescatter,
    world_of,
)
from ringtune.world.handles import Finish, Handle, HandleGroup
from ringtune.world.world import World

from .allgather import Allgather
from .autograd import Tensors, apply
from .buffers import check_tensor, dtype_number, operand_of, rows_of
from .compression import Compression, CompressorClass
from .untraced import untraced


@dataclass(frozen=True)
class Reducescatter:
    """Request for a reducescatter; see `Allreduce`."""

    operation: str
    name: str | None
    reduction: Reduction
    process_set: ProcessSet
    is_grouped: bool = False

    def start(self, tensors: Sequence[torch.Tensor]) -> list[Handle]:
        """Submit the tensors, once all were found to be fit; see `Allreduce.start`."""
        world = world_of(self.process_set)
        prepared = [self._prepare(world, tensor) for tensor in tensors]
        base = world.handles.name_for(self.operation, self.name)
        group = Group(base, len(prepared)) if self.is_grouped else NO_GROUP
        return [
            start_reducescatter(
                world,
                f"{base}.{position}" if self.is_grouped else base,
                (source, target),
                self.reduction,
                finish,
                group=group,
            )
            for position, (source, target, finish) in enumerate(prepared)
        ]

    def forward(self, tensors: Tensors) -> Tensors:
        """See `Collective`."""
        return tuple(HandleGroup(self.start(tensors), list).wait())

    def backward(self, gradients: Tensors) -> Tensors:
        """See `Collective`; as in Horovod, gradients are gathered, and for Sum multiplied by the number of ranks."""
        if self.reduction.op not in {Sum, Average}:
            raise ConfigError(
                f"{self.operation} with op={self.reduction.op.name.title()} has no gradient; use Sum or Average, or "
                "detach() the tensor"
            )
        ranks = world_of(self.process_set).size if self.reduction.op is Sum else 1
        factor = ranks * self.reduction.prescale * self.reduction.postscale
        name = None if self.name is None else f"{self.name}.gradient"
        gather = Allgather(f"{self.operation}.gradient", name, self.process_set, is_grouped=self.is_grouped)
        return apply(gather, [gradient * factor for gradient in gradients])

    def _prepare(self, world: World, tensor: torch.Tensor) -> tuple[Operand, Operand, Finish]:
        source = rows_of(self.operation, check_tensor(self.operation, tensor))
        check_reduction(self.operation, dtype_number(tensor.dtype), self.reduction)
        rows, *row = source.shape
        target = tensor.new_empty((scattered_rows(rows, world.rank, world.size), *row), requires_grad=False)
        return source, operand_of(target), lambda _: target


@untraced
def reducescatter_async(  # noqa: PLR0917  (Horovod's signature)
    tensor: torch.Tensor,
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Start to combine a tensor over all ranks and keep this rank's rows of the result.

    Args:
        tensor: Tensor as for `allreduce_async`, of at least one dimension; equal shapes on all ranks. It must not
            change before `synchronize`.
        name: Key that matches the ranks' tensors.
        op: `Average`, `Sum`, `Min`, `Max` or `Product`.
        process_set: Ranks that take part.
        prescale_factor: Factor of the tensor before the reduction.
        postscale_factor: Factor of the result after it.

    Returns:
        A handle; `synchronize` returns this rank's rows.

    Raises:
        ConfigError: If the tensor cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    return Reducescatter("reducescatter", name, reduction, process_set).start([tensor])[0]


@untraced
def reducescatter(  # noqa: PLR0917  (Horovod's signature)
    tensor: torch.Tensor,
    name: str | None = None,
    compression: CompressorClass = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Combine a tensor over all ranks and return this rank's rows, differentiably; see `reducescatter_async`."""
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    compressed, context = compression.compress(check_tensor("reducescatter", tensor))
    (result,) = apply(Reducescatter("reducescatter", name, reduction, process_set), [compressed])
    return compression.decompress(result, context)


@untraced
def grouped_reducescatter_async(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Start to combine and scatter several tensors, all together or none; see `reducescatter_async`.

    Returns:
        One handle; `synchronize` returns a list.
    """
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    collective = Reducescatter("grouped_reducescatter", name, reduction, process_set, is_grouped=True)
    return HandleGroup(collective.start(tensors), list)


@untraced
def grouped_reducescatter(  # noqa: PLR0917  (Horovod's signature)
    tensors: Sequence[torch.Tensor],
    name: str | None = None,
    compression: CompressorClass = Compression.none,
    op: ReduceOp = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> list[torch.Tensor]:
    """Combine and scatter several tensors and return this rank's rows, differentiably; see `reducescatter_async`."""
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    pairs = [compression.compress(check_tensor("grouped_reducescatter", tensor)) for tensor in tensors]
    collective = Reducescatter("grouped_reducescatter", name, reduction, process_set, is_grouped=True)
    results = apply(collective, [tensor for tensor, _ in pairs])
    return [compression.decompress(result, context) for result, (_, context) in zip(results, pairs, strict=True)]
