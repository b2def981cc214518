# SPDX-License-Identifier: Apache-2.0
"""What of a torch tensor the engine sees: a pointer, a shape and a dtype; and which tensors it can take."""

from typing import NamedTuple

import torch

from ringtune import _engine
from ringtune.errors import ConfigError, WrongTypeError
from ringtune.submissions import DTYPES, Operand

ENGINE_DTYPES: tuple[torch.dtype, ...] = tuple(getattr(torch, name) for name in DTYPES)
"""In the order of the engine's numbers."""

_NUMBERS = {dtype: number for number, dtype in enumerate(ENGINE_DTYPES)}
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


class Buffer(NamedTuple):
    """Flat memory that stands for a tensor.

    Attributes:
        memory: A dense tensor; the engine reads or writes its storage from `data_ptr()` on.
        shape: What ranks compare. For channels_last it is in the order of the memory with a leading 1, so that a
            rank with another memory format is a mismatch and not a silent mix-up.
        is_copy: Whether `memory` is a contiguous copy of the tensor, because the tensor itself is not dense.
    """

    memory: torch.Tensor
    shape: tuple[int, ...]
    is_copy: bool

    def operand(self) -> Operand:
        """Return the memory as the engine takes it."""
        return Operand(self.memory.data_ptr(), self.shape, _NUMBERS[self.memory.dtype], self.memory)

    def like(self, memory: torch.Tensor) -> "Buffer":
        """Return a buffer of the same shape over other memory."""
        return Buffer(memory, self.shape, is_copy=False)


def dtype_number(dtype: torch.dtype) -> int:
    """Return the engine's number for one of `ENGINE_DTYPES`."""
    return _NUMBERS[dtype]


def buffer_of(tensor: torch.Tensor) -> Buffer:
    """Return the memory that stands for a checked tensor.

    Args:
        tensor: Any strides. Contiguous and channels_last tensors are used as they are, others are copied.
    """
    if tensor.is_contiguous():
        return Buffer(tensor, tuple(tensor.shape), is_copy=False)
    memory_format = _CHANNELS_LAST.get(tensor.dim())
    if memory_format is not None and tensor.is_contiguous(memory_format=memory_format):
        batch, channels, *space = tensor.shape
        return Buffer(tensor, (1, batch, *space, channels), is_copy=False)
    return Buffer(tensor.detach().contiguous(), tuple(tensor.shape), is_copy=True)


def rows_of(operation: str, tensor: torch.Tensor) -> Operand:
    """Return a checked tensor's memory, row after row.

    Args:
        operation: What was asked for, for the message.
        tensor: At least one dimension; the first is the one that ranks cut or join.

    Raises:
        ConfigError: If the tensor has no dimension.
    """
    if tensor.dim() == 0:
        raise ConfigError(f"{operation} works on rows and needs a tensor of one dimension at least; call reshape(1)")
    memory = tensor.detach().contiguous()
    return Operand(memory.data_ptr(), tuple(memory.shape), _NUMBERS[memory.dtype], memory)


def tensor_of(result: _engine.Result | None, source: Operand) -> torch.Tensor:
    """Return the rows that an operation brought, without a copy.

    Args:
        result: The engine's.
        source: What this rank gave: the dtype and the shape of a row.
    """
    if result is None:
        raise AssertionError("an operation whose output the engine owns has a result")
    _, *row = source.shape
    return torch.from_numpy(result.memory).view(ENGINE_DTYPES[source.dtype]).reshape(sum(result.rows), *row)


def check_tensor(operation: str, tensor: object) -> torch.Tensor:
    """Return `tensor` if the engine can take it.

    Args:
        operation: What was asked for, for the message.
        tensor: What the caller gave.

    Raises:
        ConfigError: If it is no dense tensor in CPU memory of a supported dtype.
    """
    if not isinstance(tensor, torch.Tensor):
        raise WrongTypeError(f"{operation} needs a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ConfigError(f"{operation} needs a dense tensor, not {tensor.layout}; call to_dense() first")
    if tensor.device.type != "cpu":
        raise ConfigError(
            f"{operation} needs a tensor in CPU memory, not on {tensor.device}; this version has no other transport: "
            "move it with .cpu() first"
        )
    if tensor.dtype not in _NUMBERS or tensor.is_conj() or tensor.is_neg():
        raise WrongTypeError(
            f"{operation} does not support {tensor.dtype}; it supports {', '.join(DTYPES)}: convert the tensor first"
        )
    return tensor


def check_writable(operation: str, tensor: torch.Tensor) -> None:
    """Refuse a result tensor whose elements share memory.

    Raises:
        ConfigError: If a stride is zero where there is more than one element, as after `expand()`.
    """
    if any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True)):
        raise ConfigError(f"{operation} writes into its tensor, whose elements share memory; clone() it first")


def mark_changed(tensor: torch.Tensor) -> None:
    """Tell autograd that the tensor's memory was written behind its back."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)
