# SPDX-License-Identifier: Apache-2.0
"""Gradients that live in registered memory, where the ranks of a host reduce them without moving them.

A parameter's gradient has a *home* there. A fresh gradient of autograd's is copied into it as soon as it is complete,
while it is still in the cache, and the home becomes the parameter's gradient; a gradient that was accumulated in its
home stays there. Homes need no zeroing, and a parameter without a gradient has none.

Homes lie side by side in the order in which rank 0's gradients become ready, so that gradients reduced together are
one range of memory.
"""

import sys
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
import torch

from ringtune import _engine
from ringtune.errors import ConfigError
from ringtune.session.submissions import Operand, Reduction, Sum, start_allreduce
from ringtune.world.world import World

from .buffers import ENGINE_DTYPES, buffer_of, dtype_number

ALIGNMENT_BYTES = 64  # a cache line has one writer then
MIN_HOME_BYTES = _engine.engine_facts()["registered_min_bytes"]
_SUM = Reduction(Sum)


class GradientHome:
    """The registered memory of one parameter's gradient."""

    __slots__ = ("_references", "_tensor")

    def __init__(self, parameter: torch.Tensor, memory: npt.NDArray[np.uint8]) -> None:
        """Make the tensor that will be the parameter's gradient.

        Args:
            parameter: Dense; the gradient gets its shape, strides and dtype.
            memory: Memory of as many bytes as the parameter has.
        """
        self._tensor = torch.empty(0, dtype=parameter.dtype, device="cpu")
        # No view of a larger tensor: such a one can neither be detached in place nor saved by itself.
        storage = torch.from_numpy(memory).untyped_storage()
        self._tensor.set_(storage, 0, parameter.shape, parameter.stride())
        self._references = sys.getrefcount(self._tensor)  # while nobody else has it

    def fits(self, parameter: torch.Tensor) -> bool:
        """Return whether the parameter still has the dtype and the shape that it had when the home was made."""
        return self._tensor.dtype is parameter.dtype and self._tensor.shape == parameter.shape

    def take_in(self, parameter: torch.Tensor) -> torch.Tensor | None:
        """Bring a parameter's gradient home; zeros where it has none.

        Returns:
            The gradient, or None where it cannot live there: it stays as it is.
        """
        gradient = parameter.grad
        if gradient is self._tensor:
            return gradient
        # Somebody kept the gradient of an earlier step, and may count on it.
        if sys.getrefcount(self._tensor) != self._references:
            return None
        if gradient is None:
            self._tensor.zero_()
        elif gradient.layout is torch.strided and gradient.device.type == "cpu" and not gradient.requires_grad:
            self._tensor.copy_(gradient)
        else:
            return None
        parameter.grad = self._tensor
        return self._tensor


def has_use(world: World) -> bool:
    """Return whether registered memory makes anything faster: in a world of several ranks on one host."""
    return world.layout.host_count == 1 and world.size > 1


def can_have_home(parameter: torch.Tensor) -> bool:
    """Return whether a parameter's gradients are large dense tensors that the engine takes as they are."""
    is_plain = parameter.layout is torch.strided and parameter.device.type == "cpu" and parameter.dtype in ENGINE_DTYPES
    return is_plain and parameter.nbytes >= MIN_HOME_BYTES and not buffer_of(parameter).is_copy


def lay_out(
    world: World, name: str, parameters: Sequence[torch.Tensor], ready: Sequence[int]
) -> Mapping[int, GradientHome] | None:
    """Find homes for gradients; called on all ranks after the same step.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks.
        parameters: Parameters, in one order on all ranks.
        ready: Indices of those that are to have homes, in the order in which their gradients became ready; rank 0's
            holds for all.

    Returns:
        The homes by index; none at all, and a warning of one rank, where a rank lacks the memory. None where a rank has
        joined: to be tried again after another step.

    Raises:
        EngineError: If the world is lost.
    """
    if all(parameter.nbytes < MIN_HOME_BYTES for parameter in parameters):  # so it is on all ranks
        return {}
    order = _order_of_rank_0(world, name, len(parameters), ready)
    if order is None:
        return None
    begins, end = {}, 0
    for index in order:
        begins[index] = end
        end += -(-parameters[index].nbytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    memory = _allocate_everywhere(world, name, end) if order else None
    if memory is None:
        return {}
    return {
        index: GradientHome(parameters[index], memory[begin : begin + parameters[index].nbytes])
        for index, begin in begins.items()
        if can_have_home(parameters[index])
    }


def _order_of_rank_0(world: World, name: str, count: int, ready: Sequence[int]) -> Sequence[int] | None:
    """Return the indices that rank 0 has, in its order; None where not all ranks take part."""
    # A sum, because that is what ranks that have joined do not keep from ending. How many take part, then each index's
    # place in the order, from 1; 0 for no place.
    table = torch.zeros(1 + count, dtype=torch.int64, device="cpu")
    table[0] = 1
    if world.rank == 0:
        for place, index in enumerate(ready, start=1):
            table[1 + index] = place
    _sum(world, f"order.{name}", table)
    taking_part, *places = table.tolist()
    if taking_part != world.size:
        return None
    return sorted((index for index in range(count) if places[index]), key=lambda index: int(places[index]))


def _allocate_everywhere(world: World, name: str, size_bytes: int) -> npt.NDArray[np.uint8] | None:
    """Return memory if every rank gets it; else the first rank that does not says why."""
    memory, reason = None, ""
    try:
        memory = world.engine.allocate_registered(size_bytes)
    except ConfigError as error:
        reason = str(error)
    failed = torch.zeros(world.size, dtype=torch.int64, device="cpu")
    failed[world.rank] = int(memory is None)
    _sum(world, f"memory.{name}", failed)
    ranks = failed.nonzero().flatten().tolist()
    if not ranks:
        return memory
    if ranks[0] == world.rank:
        world.console.warning(f"gradients are copied on their way through the engine, which is slower: {reason}")
    return None


def _sum(world: World, name: str, table: torch.Tensor) -> None:
    operand = Operand(table.data_ptr(), tuple(table.shape), dtype_number(table.dtype), table)
    start_allreduce(world, name, (operand, operand), _SUM, lambda _: None).wait()
