# SPDX-License-Identifier: Apache-2.0
"""View of a torch tensor for the engine: a pointer, a shape and a dtype; and the check of tensors that it can take."""

from typing import Any, NamedTuple

import torch

from ringtune import _engine
from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.submissions import DTYPES, REDUCIBLE, Operand, reducible_number

ENGINE_DTYPES: tuple[torch.dtype, ...] = tuple(getattr(torch, name) for name in REDUCIBLE)
"""Those that are reduced, in the order of the engine's numbers."""

MOVABLE_DTYPES: dict[str, torch.dtype] = {name: getattr(torch, name) for name in DTYPES if hasattr(torch, name)}
"""Dtypes by name: all of this torch except the quantized ones, whose tensors are more than their elements."""

_NUMBERS = {dtype: DTYPES.index(name) for name, dtype in MOVABLE_DTYPES.items()}
_WITHOUT_COPY = frozenset(
    dtype
    for name, dtype in MOVABLE_DTYPES.items()
    if name in {f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)}
)  # torch copies no tensor of integers that are smaller than a byte
_CHANNELS_LAST = {4: torch.channels_last, 5: torch.channels_last_3d}


class CudaStreams:
    """The calling thread's current CUDA streams, by number; see `ringtune.world.handles.Streams`.

    A thread has a current stream on every device. Its work there runs in order; an operation of the engine on a tensor
    of that device acts as if it were enqueued there too.
    """

    def current(self, device: int) -> int:
        """Return the number of the current stream on a device; 0 is the default stream."""
        # Half a microsecond; torch.cuda.current_stream() takes three, and every gradient asks twice.
        stream: int = torch._C._cuda_getCurrentRawStream(device)  # noqa: SLF001
        return stream

    def note_use(self, owner: Any, device: int) -> None:
        """Let torch reuse a tensor's memory only after the work enqueued so far on the current stream."""
        owner.record_stream(torch.cuda.current_stream(device))


CUDA_STREAMS = CudaStreams()


class Buffer(NamedTuple):
    """Flat memory that stands for a tensor.

    Attributes:
        memory: A dense tensor; the engine reads or writes its storage from `data_ptr()` on.
        shape: Shape that ranks compare. For channels_last it is in the order of the memory with a leading 1, so that a
            rank with another memory format is a mismatch and not a silent mix-up.
        is_copy: Whether `memory` is a contiguous copy of the tensor, because the tensor itself is not dense.
    """

    memory: torch.Tensor
    shape: tuple[int, ...]
    is_copy: bool

    def operand(self) -> Operand:
        """Return the memory as the engine takes it; its owner is the storage, for a tensor may be given another."""
        memory = self.memory
        if memory.is_cuda:  # its owner is a tensor, for a stream's use is noted by tensor
            return _on_device(memory.detach(), self.shape)
        return Operand(memory.data_ptr(), self.shape, _NUMBERS[memory.dtype], memory.untyped_storage())

    def like(self, memory: torch.Tensor) -> "Buffer":
        """Return a buffer of the same shape over other memory."""
        return Buffer(memory, self.shape, is_copy=False)


def dtype_number(dtype: torch.dtype) -> int:
    """Return the engine's number for one of `MOVABLE_DTYPES`."""
    return _NUMBERS[dtype]


def buffer_of(tensor: torch.Tensor) -> Buffer:
    """Return the memory that stands for a checked tensor.

    Args:
        tensor: Any strides. Contiguous and channels_last tensors are used as they are, others are copied, and so are
            conjugated and negated views, whose memory does not hold their values.
    """
    if tensor.is_conj() or tensor.is_neg():
        return Buffer(contiguous(tensor), tuple(tensor.shape), is_copy=True)
    if tensor.is_contiguous():
        return Buffer(tensor, tuple(tensor.shape), is_copy=False)
    memory_format = _CHANNELS_LAST.get(tensor.dim())
    if memory_format is not None and tensor.is_contiguous(memory_format=memory_format):
        batch, channels, *space = tensor.shape
        return Buffer(tensor, (1, batch, *space, channels), is_copy=False)
    return Buffer(contiguous(tensor), tuple(tensor.shape), is_copy=True)


def copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy outside of autograd's graph, of any dtype that the engine moves."""
    if tensor.dtype in _WITHOUT_COPY:
        return tensor.detach().view(torch.uint8).clone().view(tensor.dtype)
    return tensor.detach().clone()


def host_copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a CUDA tensor in CPU memory, of any dtype that the engine moves."""
    if tensor.dtype in _WITHOUT_COPY:
        return tensor.detach().view(torch.uint8).cpu().view(tensor.dtype)
    return tensor.detach().cpu()


def device_copy_of(tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy on this rank's current CUDA device; the tensor itself where there is none."""
    if not torch.cuda.is_available():
        return tensor
    device = torch.device("cuda", torch.cuda.current_device())
    if tensor.dtype in _WITHOUT_COPY:
        return tensor.view(torch.uint8).to(device).view(tensor.dtype)
    return tensor.to(device)


def copy_into(tensor: torch.Tensor, memory: torch.Tensor) -> None:
    """Copy elements of any dtype that the engine moves, behind autograd's back."""
    if tensor.dtype in _WITHOUT_COPY:
        tensor.detach().view(torch.uint8).copy_(memory.view(torch.uint8))
    else:
        tensor.detach().copy_(memory)


def contiguous(tensor: torch.Tensor) -> torch.Tensor:
    """Return the tensor with its elements in order, outside of autograd's graph; a copy only where it must be."""
    if tensor.dtype in _WITHOUT_COPY:
        return tensor.detach().view(torch.uint8).contiguous().view(tensor.dtype)
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def operand_of(memory: torch.Tensor) -> Operand:
    """Return a contiguous tensor, which no other code writes to, as the engine takes it."""
    if memory.is_cuda:
        return _on_device(memory, tuple(memory.shape))
    return Operand(memory.data_ptr(), tuple(memory.shape), _NUMBERS[memory.dtype], memory)


def _on_device(memory: torch.Tensor, shape: tuple[int, ...]) -> Operand:
    device = memory.get_device()
    stream = CUDA_STREAMS.current(device)
    return Operand(memory.data_ptr(), shape, _NUMBERS[memory.dtype], memory, device, stream, CUDA_STREAMS)


def rows_of(operation: str, tensor: torch.Tensor) -> Operand:
    """Return a checked tensor's memory, row after row.

    Args:
        operation: Name of the operation, for the message.
        tensor: Tensor of at least one dimension; the first is the one that ranks cut or join.

    Raises:
        ConfigError: If the tensor has no dimension.
    """
    if tensor.dim() == 0:
        raise ConfigError(f"{operation} works on rows and needs a tensor of one dimension at least; call reshape(1)")
    return operand_of(contiguous(tensor))


def tensor_of(result: _engine.Result | None, source: Operand) -> torch.Tensor:
    """Return the rows that an operation brought: without a copy, or on the device of this rank's input.

    Args:
        result: The engine's.
        source: This rank's tensor, for the dtype, the shape of a row and the device.
    """
    if result is None:
        raise AssertionError("an operation whose output the engine owns has a result")
    _, *row = source.shape
    memory: torch.Tensor
    if result.bytes_on_device:
        memory = source.owner.new_empty((result.bytes_on_device,), dtype=torch.uint8)
        result.move_to(memory.data_ptr(), CUDA_STREAMS.current(source.device))
    elif source.device >= 0:
        on_host = torch.from_numpy(result.memory)
        memory = source.owner.new_empty(on_host.shape, dtype=torch.uint8).copy_(on_host)
    else:
        memory = torch.from_numpy(result.memory)
    return memory.view(MOVABLE_DTYPES[DTYPES[source.dtype]]).reshape(sum(result.rows), *row)


def check_tensor(operation: str, tensor: object) -> torch.Tensor:
    """Return `tensor` if the engine can reduce it.

    Args:
        operation: Name of the operation, for the message.
        tensor: The caller's tensor.

    Raises:
        ConfigError: If it is no dense tensor in CPU memory or on a CUDA device; a `WrongTypeError` if it is no tensor,
            or of a dtype that is not reduced.
    """
    found = _check_place(operation, tensor)
    if _NUMBERS.get(found.dtype, len(REDUCIBLE)) >= len(REDUCIBLE):
        reducible_number(operation, str(found.dtype).removeprefix("torch."))
    return found


def check_movable(operation: str, tensor: object) -> torch.Tensor:
    """Return `tensor` if the engine can move it to other ranks; see `check_tensor`."""
    found = _check_place(operation, tensor)
    if found.dtype not in _NUMBERS:
        raise WrongTypeError(f"{operation} does not support {found.dtype}, a quantized dtype; call dequantize() first")
    return found


def _check_place(operation: str, tensor: object) -> torch.Tensor:
    if not isinstance(tensor, torch.Tensor):
        raise WrongTypeError(f"{operation} needs a torch.Tensor, not {type(tensor).__name__}")
    if tensor.layout is not torch.strided:
        raise ConfigError(f"{operation} needs a dense tensor, not {tensor.layout}; call to_dense() first")
    if tensor.device.type != "cpu" and not tensor.is_cuda:
        remedy = "give it values with .to_empty() first" if tensor.is_meta else "move it with .cpu() first"
        raise ConfigError(
            f"{operation} needs a tensor in CPU memory or on a CUDA device, not on {tensor.device}; {remedy}"
        )
    return tensor


def check_writable(operation: str, tensor: torch.Tensor) -> None:
    """Refuse a result tensor whose elements share memory.

    Raises:
        ConfigError: If a stride is zero where there is more than one element, as after `expand()`. An empty tensor that
            was made by numpy has such strides and no elements.
    """
    shared = any(stride == 0 and size > 1 for stride, size in zip(tensor.stride(), tensor.shape, strict=True))
    if shared and tensor.numel():
        raise ConfigError(f"{operation} writes into its tensor, whose elements share memory; clone() it first")


def mark_changed(tensor: torch.Tensor) -> None:
    """Let autograd know that the tensor's memory was written behind its back."""
    if not tensor.is_inference():
        torch.autograd.graph.increment_version(tensor)
