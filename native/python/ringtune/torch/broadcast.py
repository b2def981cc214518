# SPDX-License-Identifier: Apache-2.0
"""Broadcast, with Horovod's names and meanings: `root_rank` is a rank of the whole job, also in a process set."""

from dataclasses import dataclass

import torch

from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Reduction, start_broadcast, world_of
from ringtune.world.handles import Handle

from .allreduce import Allreduce, into
from .autograd import Tensors, apply
from .buffers import buffer_of, check_movable, check_writable, copy_of
from .untraced import untraced


@dataclass(frozen=True)
class Broadcast:
    """Request for a broadcast; see `Allreduce`."""

    root_rank: int
    name: str | None
    process_set: ProcessSet

    def start(self, tensor: torch.Tensor) -> Handle:
        """Submit the tensor, which the root's will overwrite."""
        world = world_of(self.process_set)
        root = self.process_set.rank_of(self.root_rank)
        check_writable("broadcast_", check_movable("broadcast_", tensor))
        buffer = buffer_of(tensor)
        name = world.handles.name_for("broadcast", self.name)
        return start_broadcast(world, name, buffer.operand(), root, into(tensor, buffer))

    def forward(self, tensors: Tensors) -> Tensors:
        """See `Collective`."""
        return (self.start(copy_of(tensors[0])).wait(),)

    def backward(self, gradients: Tensors) -> Tensors:
        """See `Collective`; as in Horovod, the average of the gradients on the root, and zero elsewhere."""
        name = None if self.name is None else f"{self.name}.gradient"
        (average,) = apply(Allreduce("broadcast.gradient", name, Reduction(), self.process_set), gradients)
        world = world_of(self.process_set)
        return (average if world.rank == self.process_set.rank_of(self.root_rank) else torch.zeros_like(average),)


@untraced
def broadcast_async_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Start to overwrite a tensor with the root's.

    Args:
        tensor: Any dtype but quantized ones, in CPU memory or on a CUDA device; same shape and dtype on all ranks.
        root_rank: Rank whose values all ranks get.
        name: Key that matches the ranks' tensors.
        process_set: Ranks that take part.

    Returns:
        A handle; `synchronize` returns `tensor`.

    Raises:
        ConfigError: If the tensor cannot be taken, there is no such rank, or this rank is not in the set.
        EngineError: If the world is lost.
    """
    return Broadcast(root_rank, name, process_set).start(tensor)


@untraced
def broadcast_(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Overwrite a tensor with the root's and return it; see `broadcast_async_`."""
    result: torch.Tensor = broadcast_async_(tensor, root_rank, name, process_set).wait()
    return result


@untraced
def broadcast_async(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Start to copy the root's tensor into a new one; arguments and errors as for `broadcast_async_`."""
    return Broadcast(root_rank, name, process_set).start(copy_of(check_movable("broadcast", tensor)))


@untraced
def broadcast(
    tensor: torch.Tensor, root_rank: int, name: str | None = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Return a copy of the root's tensor, differentiably; see `broadcast_async_`."""
    (result,) = apply(Broadcast(root_rank, name, process_set), [check_movable("broadcast", tensor)])
    return result
