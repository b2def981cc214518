# SPDX-License-Identifier: Apache-2.0
"""Allgather of one tensor and of groups; ranks may bring different numbers of rows. Horovod's names and meanings."""

from collections.abc import Sequence

import torch

from ringtune import _engine
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import NO_GROUP, Group, Operand, Reduction, start_allgather, world_of
from ringtune.world.handles import Handle, HandleGroup

from .allreduce import Allreduce
from .autograd import Tensors, apply
from .buffers import check_movable, rows_of, tensor_of
from .untraced import untraced


class Allgather:
    """Request for an allgather, and after it which of the rows are this rank's."""

    def __init__(
        self,
        operation: str,
        name: str | None,
        process_set: ProcessSet,
        *,
        is_grouped: bool = False,
        is_gradient: bool = False,
    ) -> None:
        """Describe the call; see `Allreduce`, and `start_allgather` for `is_gradient`."""
        self._operation = operation
        self._name = name
        self._process_set = process_set
        self._is_grouped = is_grouped
        self._is_gradient = is_gradient
        self._own_rows: dict[int, tuple[int, int]] = {}  # by position: the first one, and how many

    def start(self, tensors: Sequence[torch.Tensor]) -> list[Handle]:
        """Submit the tensors, once all were found to be fit; see `Allreduce.start`."""
        world = world_of(self._process_set)
        sources = [rows_of(self._operation, check_movable(self._operation, tensor)) for tensor in tensors]
        base = world.handles.name_for(self._operation, self._name)
        group = Group(base, len(sources)) if self._is_grouped else NO_GROUP
        handles = []
        for position, source in enumerate(sources):

            def finish(
                result: _engine.Result | None, position: int = position, source: Operand = source
            ) -> torch.Tensor:
                rows = [] if result is None else result.rows
                self._own_rows[position] = (sum(rows[: world.rank]), source.shape[0])
                return tensor_of(result, source)

            name = f"{base}.{position}" if self._is_grouped else base
            handles.append(start_allgather(world, name, source, finish, group=group, is_gradient=self._is_gradient))
        return handles

    def forward(self, tensors: Tensors) -> Tensors:
        """See `Collective`."""
        return tuple(HandleGroup(self.start(tensors), list).wait())

    def backward(self, gradients: Tensors) -> Tensors:
        """See `Collective`; as in Horovod, the average over the ranks of the gradients of this rank's rows."""
        name = None if self._name is None else f"{self._name}.gradient"
        operation = f"{self._operation}.gradient"
        average = Allreduce(operation, name, Reduction(), self._process_set, is_grouped=self._is_grouped)
        averaged = apply(average, gradients)
        return tuple(
            gradient.narrow(0, *self._own_rows[position]).contiguous() for position, gradient in enumerate(averaged)
        )


@untraced
def allgather_async(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Start to gather every rank's tensor.

    Args:
        tensor: Any dtype but quantized ones, in CPU memory or on a CUDA device; the first dimension may differ between
            ranks, the others may not. It must not change before `synchronize`. A tensor without a dimension counts as
            one row.
        name: Key that matches the ranks' tensors.
        process_set: Ranks that take part.

    Returns:
        A handle; `synchronize` returns the ranks' tensors one after the other along the first dimension.

    Raises:
        ConfigError: If the tensor cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    return Allgather("allgather", name, process_set).start([_with_rows(check_movable("allgather", tensor))])[0]


@untraced
def allgather(
    tensor: torch.Tensor, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Return every rank's tensor, along the first dimension, differentiably; see `allgather_async`."""
    (result,) = apply(Allgather("allgather", name, process_set), [_with_rows(check_movable("allgather", tensor))])
    return result


@untraced
def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Start to gather several tensors, all together or none; see `allgather_async`.

    Returns:
        One handle; `synchronize` returns a list.
    """
    rows = [_with_rows(check_movable("grouped_allgather", tensor)) for tensor in tensors]
    return HandleGroup(Allgather("grouped_allgather", name, process_set, is_grouped=True).start(rows), list)


@untraced
def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[torch.Tensor]:
    """Return every rank's tensors, each along its first dimension, differentiably; see `allgather_async`."""
    rows = [_with_rows(check_movable("grouped_allgather", tensor)) for tensor in tensors]
    return list(apply(Allgather("grouped_allgather", name, process_set, is_grouped=True), rows))


def _with_rows(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.reshape(1) if tensor.dim() == 0 else tensor
