# SPDX-License-Identifier: Apache-2.0
"""Tensors of the stand-in for the CUDA driver: torch tensors that say they are on a GPU, in memory of the stand-in's.

Torch's own work on them is done at once, after all earlier work of their stream: torch takes the current stream of the
stand-in for its current CUDA stream. Programs that use this load the stand-in, whose path is in STANDIN_DRIVER, before
the engine looks for the driver of that name, so that the engine takes it for the driver.
"""

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch

# Asks for facts or makes memory, so that no stream must be waited for.
QUESTIONS = frozenset(
    {
        *("__get__", "data_ptr", "detach", "dim", "empty_like", "is_conj", "is_contiguous", "is_inference", "is_neg"),
        *("new_empty", "numel", "size", "storage_offset", "stride", "untyped_storage", "view"),
    }
)


class Settings(ctypes.Structure):
    """See `StandinSettings`."""

    _fields_ = [
        ("devices", ctypes.c_int),
        ("seed", ctypes.c_uint64),
        ("max_delay_us", ctypes.c_uint32),
        ("can_register", ctypes.c_uint32),
        ("can_allocate", ctypes.c_uint32),
        ("has_pools", ctypes.c_uint32),
    ]


class Counts(ctypes.Structure):
    """See `StandinCounts`."""

    _fields_ = [
        *((name, ctypes.c_int) for name in ("contexts", "streams", "events", "pinned_allocations", "registrations")),
        *((name, ctypes.c_int) for name in ("pools", "pool_allocations", "modules", "pushed_contexts", "violations")),
        ("calls", ctypes.c_uint64),
    ]

    def alive(self) -> dict[str, int]:
        """Return the counts of live objects and errors that are not zero."""
        named = {name: getattr(self, name) for name, *_ in self._fields_ if name != "calls"}
        return {name: count for name, count in named.items() if count}


def load_libraries() -> ctypes.CDLL:
    """Load the stand-ins, and return the driver's; whoever asks for their names in this process gets them from then on.

    The one for NCCL is that of STANDIN_NCCL, if there is any.
    """
    driver = ctypes.CDLL(os.environ["STANDIN_DRIVER"])
    if "STANDIN_NCCL" in os.environ:
        ctypes.CDLL(os.environ["STANDIN_NCCL"])
    return driver


class Machine:
    """A machine with GPUs of the stand-in's, one for the whole process."""

    has_autograd = False  # torch adds gradients without asking the tensors, which would wait

    def __init__(self, seed: int, devices: int = 1, max_delay_us: int = 300) -> None:
        """Begin, and let torch take the machine's current stream for its own."""
        self._library = load_libraries()
        self._library.standin_allocate.restype = ctypes.c_uint64
        self._library.standin_make_stream.restype = ctypes.c_void_p
        self._library.standin_counts.restype = Counts
        self._library.standin_reset(ctypes.byref(Settings(devices, seed, max_delay_us, 1, 1, 1)))
        self._kept: list[Any] = []  # what streams will read
        self._streams: list[int] = []
        self.current = self.make_stream()
        self.noted: list[tuple[int, int]] = []
        torch._C._cuda_getCurrentRawStream = lambda device: self.current
        torch.cuda.current_stream = lambda device=None: self.current  # type: ignore[assignment, return-value]

    def make_stream(self) -> int:
        """Return a new stream of the first device."""
        self._streams.append(int(self._library.standin_make_stream(0)))
        return self._streams[-1]

    @contextmanager
    def stream(self, stream: int) -> Iterator[None]:
        """Make a stream the current one."""
        before, self.current = self.current, stream
        try:
            yield
        finally:
            self.current = before

    def wait(self) -> None:
        """Wait until the current stream has done everything that it was given."""
        self._library.standin_synchronize(ctypes.c_void_p(self.current))

    def capture(self, *, is_begin: bool) -> None:
        """Say that the current stream is being captured, or no longer."""
        self._library.standin_set_capturing(ctypes.c_void_p(self.current), int(is_begin))

    def fail(self, function: str, result: int) -> None:
        """Let the next call of a function of the driver's fail."""
        self._library.standin_fail(function.encode(), 1, result)

    def memory(self, count: int) -> torch.UntypedStorage:
        """Return memory of the device, filled with bytes that no test expects."""
        address = self._library.standin_allocate(0, ctypes.c_size_t(count))
        filled = torch.frombuffer((ctypes.c_uint8 * max(1, count)).from_address(address), dtype=torch.uint8)
        return filled.fill_(0x5A).untyped_storage()

    def late(self, values: torch.Tensor, delay_us: int = 2000) -> torch.Tensor:
        """Return a tensor of the device that holds the values once a late kernel of the current stream has run."""
        tensor = on_device(self, torch.empty_like(values))
        self._kept.append(values)
        self._library.standin_copy(
            ctypes.c_void_p(self.current),
            ctypes.c_uint64(tensor.data_ptr()),
            ctypes.c_uint64(values.data_ptr()),
            ctypes.c_size_t(values.nbytes),
            ctypes.c_uint32(delay_us),
        )
        return tensor

    def has(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor lies on the device."""
        return isinstance(tensor, DeviceTensor)

    def close(self) -> dict[str, int]:
        """End the streams, and count live objects and breaches of the driver's rules."""
        for stream in self._streams:
            self._library.standin_destroy_stream(ctypes.c_void_p(stream))
        return self._library.standin_counts().alive()  # type: ignore[no-any-return]


class DeviceTensor(torch.Tensor):
    """A tensor in memory of the stand-in's first GPU."""

    machine: Machine

    is_cuda = property(lambda self: True)
    device = property(lambda self: torch.device("cuda", 0))

    def get_device(self) -> int:
        """Return the device's number."""
        return 0

    def record_stream(self, stream: Any) -> None:
        """Write down that a stream uses the memory."""
        self.machine.noted.append((self.data_ptr(), stream))

    def cpu(self, *arguments: Any) -> torch.Tensor:
        """Return a copy in CPU memory, once the current stream is through."""
        self.machine.wait()
        return self.as_subclass(torch.Tensor).clone()

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        tensors = [each for each in args if isinstance(each, DeviceTensor)]
        if tensors and function.__name__ not in QUESTIONS:
            tensors[0].machine.wait()
        untyped: Any = super()  # torch leaves the method without annotations
        result = untyped.__torch_function__(function, types, args, kwargs or {})
        is_dense = isinstance(result, torch.Tensor) and result.layout is torch.strided
        return _placed(result, tensors) if tensors and is_dense else result


def _placed(result: torch.Tensor, sources: list[DeviceTensor]) -> torch.Tensor:
    """Return torch's result for tensors of the device, on the device: a view of theirs, or in memory of its own."""
    machine = sources[0].machine
    storages = {tensor.untyped_storage().data_ptr() for tensor in sources}
    is_view = result.untyped_storage().data_ptr() in storages
    return _said_to_be_on(machine, result) if is_view else on_device(machine, result)


def on_device(machine: Machine, tensor: torch.Tensor) -> torch.Tensor:
    """Return a copy of a tensor on the device, with its strides."""
    with torch._C.DisableTorchFunctionSubclass():
        plain = tensor.as_subclass(torch.Tensor).detach()
        bytes_ = plain.untyped_storage().nbytes()
        copy = torch.empty(0, dtype=plain.dtype)
        copy.set_(machine.memory(bytes_), plain.storage_offset(), plain.shape, plain.stride())
        if bytes_:
            ctypes.memmove(copy.untyped_storage().data_ptr(), plain.untyped_storage().data_ptr(), bytes_)
        return _said_to_be_on(machine, copy)


def _said_to_be_on(machine: Machine, tensor: torch.Tensor) -> torch.Tensor:
    with torch._C.DisableTorchFunctionSubclass():
        shown = tensor.as_subclass(DeviceTensor)
        shown.machine = machine
        return shown
