# SPDX-License-Identifier: Apache-2.0
"""Dense memory that stands for a caller's tensors: the tensor itself, or a copy that is written back."""

from collections.abc import Sequence
from itertools import pairwise

import torch

from ringtune.errors import ConfigError
from ringtune.session.submissions import Operand
from ringtune.torch.buffers import MOVABLE_DTYPES, contiguous, copy_into, operand_of

_MOVABLE = frozenset(MOVABLE_DTYPES.values())


def dense(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor's elements in their order, without autograd: the tensor itself where its memory has them so.

    Raises:
        ConfigError: If the tensor is sparse, on a device that the engine does not reach, or quantized.
    """
    own = _own_memory(tensor)
    return contiguous(tensor) if own is None else own


def check(tensor: torch.Tensor) -> None:
    """Refuse a tensor that the engine cannot move."""
    if tensor.layout is not torch.strided:
        raise ConfigError(f"the backend ringtune needs dense tensors here, not {tensor.layout}; call to_dense() first")
    if tensor.device.type not in {"cpu", "cuda"}:
        raise ConfigError(f"the backend ringtune needs tensors on CPU or CUDA, not on {tensor.device}")
    if tensor.dtype not in _MOVABLE:
        raise ConfigError(f"the backend ringtune does not take {tensor.dtype}; call dequantize() first")


def room_for(tensor: torch.Tensor) -> torch.Tensor:
    """Return dense memory for the elements of a tensor that is overwritten: its own, if that is dense."""
    own = _own_memory(tensor)
    return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device) if own is None else own


def write_back(tensor: torch.Tensor, memory: torch.Tensor) -> None:
    """Copy elements into a tensor that they do not lie in already."""
    if memory.data_ptr() != tensor.data_ptr() or memory.stride() != tensor.stride():
        copy_into(tensor, memory.view(tensor.shape))


def share_memory(tensors: Sequence[torch.Tensor]) -> bool:
    """Return whether two of the tensors have an element in common, or lie between each other's elements."""
    spans = sorted(_span(tensor) for tensor in tensors if tensor.numel())
    return any(begin < end for (_, end), (begin, _) in pairwise(spans))


def joined(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Return the elements of tensors of one dtype, one after the other, in new memory."""
    for tensor in tensors:
        check(tensor)
    return torch.cat([contiguous(tensor).reshape(-1) for tensor in tensors])


def part(memory: torch.Tensor, tensors: Sequence[torch.Tensor]) -> None:
    """Copy the elements of flat memory into tensors, one after the other."""
    begin = 0
    for tensor in tensors:
        count = tensor.numel()
        copy_into(tensor, memory[begin : begin + count].view(tensor.shape))
        begin += count


def flat(memory: torch.Tensor) -> torch.Tensor:
    """Return dense memory as one dimension."""
    return memory.view(-1)


def offered(memory: torch.Tensor) -> Operand:
    """Return dense memory as an output for rows whose number only the engine knows."""
    return operand_of(memory)._replace(size_bytes=memory.nbytes)


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """Return the addresses where the elements of a tensor begin and end."""
    check(tensor)
    last = sum((length - 1) * stride for length, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


def _own_memory(tensor: torch.Tensor) -> torch.Tensor | None:
    """Return the tensor without autograd, if its memory has its elements in their order; raises `ConfigError`."""
    check(tensor)
    if not tensor.is_contiguous() or tensor.is_conj() or tensor.is_neg():
        return None
    return tensor.detach() if tensor.requires_grad else tensor
