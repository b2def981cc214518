# SPDX-License-Identifier: Apache-2.0
"""What of a torch tensor the engine sees: a pointer, a shape and a dtype; and which tensors it can take."""

from collections.abc import Collection
from dataclasses import dataclass

import torch

from ringtune.errors import ConfigError

ENGINE_DTYPES = (
    torch.uint8,
    torch.int8,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.bool,
)
"""In the order of the engine's numbers; see `_engine.Engine`."""

REDUCIBLE_DTYPES = (torch.float32, torch.float64, torch.int32, torch.int64)

_NUMBERS = {dtype: number for number, dtype in enumerate(ENGINE_DTYPES)}
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class Buffer:
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

    @property
    def dtype_number(self) -> int:
        """The engine's number for the dtype."""
        return dtype_number(self.memory.dtype)

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


def check_tensor(operation: str, tensor: object, dtypes: Collection[torch.dtype] = ENGINE_DTYPES) -> torch.Tensor:
    """Return `tensor` if the engine can take it.

    Args:
        operation: What was asked for, for the message.
        tensor: What the caller gave.
        dtypes: What the operation supports.

    Raises:
        ConfigError: If it is no dense tensor in CPU memory of a supported dtype.
    """
    if not isinstance(tensor, torch.Tensor):
        raise ConfigError(f"{operation} needs a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ConfigError(f"{operation} needs a dense tensor, not {tensor.layout}; call to_dense() first")
    if tensor.device.type != "cpu":
        raise ConfigError(
            f"{operation} needs a tensor in CPU memory, not on {tensor.device}; this version has no other transport: "
            "move it with .cpu() first"
        )
    if tensor.dtype not in dtypes or tensor.is_conj() or tensor.is_neg():
        names = ", ".join(str(dtype).removeprefix("torch.") for dtype in dtypes)
        raise ConfigError(f"{operation} does not support {tensor.dtype}; it supports {names}: convert the tensor first")
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
