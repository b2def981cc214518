# SPDX-License-Identifier: Apache-2.0
"""Cases for tensors of a device: every result has the bits that the engine computes in CPU memory, and lies there.

Values are such that sums round, and some are NaN. A device is the stand-in's, or a GPU.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Protocol

import torch

import ringtune.torch as hvd
from ringtune.torch.buffers import ENGINE_DTYPES, MOVABLE_DTYPES
from tests.collectives.cases import bound
from tests.collectives.oracle import Array
from tests.collectives.torch_front_end import TorchFrontEnd

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHAPES = ((), (0,), (1,), (3, 5), (2, 0, 3), (1031,), (20_011,), (2, 3, 4, 5))
OPS = (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)

Brought = list[torch.Tensor]


class Device(Protocol):
    """A device whose tensors are checked.

    Attributes:
        has_autograd: Whether torch's own part of a backward pass waits for what the device still does.
    """

    has_autograd: bool

    def late(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a copy of a tensor on the device, which may still be on its way."""

    def has(self, tensor: torch.Tensor) -> bool:
        """Return whether a tensor lies on the device."""


class DeviceFrontEnd(TorchFrontEnd):
    """The torch front end with tensors of a device; see `FrontEnd`."""

    moved = ()  # `moved` has them all

    def __init__(self, device: Device) -> None:
        """Take a few dtypes and shapes: the others are checked bit for bit."""
        super().__init__(is_brief=True)
        self._device = device
        if not device.has_autograd:
            self.left_out = frozenset({"gradients_of_sums", "gradients_of_moves"})

    def tensor(self, values: Array, dtype: str) -> Any:
        """Return a tensor of a dtype with these values."""
        return self._device.late(super().tensor(values, dtype))

    def read(self, tensor: Any) -> tuple[str, Array]:
        """Return the name of a tensor's dtype, and its values as float64 or int64."""
        assert self._device.has(tensor)
        return super().read(tensor)


def values_of(dtype: torch.dtype, shape: Sequence[int], seed: int, *, is_finite: bool = False) -> torch.Tensor:
    """Return this rank's values in CPU memory."""
    generator = torch.Generator().manual_seed(1000 * seed + hvd.rank())
    if not dtype.is_floating_point:
        return torch.randint(0, 2 if dtype is torch.bool else 100, tuple(shape), generator=generator).to(dtype)
    values = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    if not is_finite:
        values.view(-1)[7::101] = float("nan")
        values.view(-1)[11::103] = float("inf")
    return values.to(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's bytes, in CPU memory."""
    flat = tensor.detach().contiguous() if tensor.dtype in ENGINE_DTYPES else tensor.detach()
    return flat.reshape(-1).view(torch.uint8).cpu() if flat.numel() else torch.empty(0, dtype=torch.uint8)


def reductions() -> Iterator[tuple[torch.dtype, hvd.ReduceOp]]:
    """Return the dtypes and operations that go together."""
    for dtype in ENGINE_DTYPES:
        for op in OPS:
            if dtype is not torch.bool or op != hvd.Average:
                yield dtype, op


def require_same(device: Device, about: object, expected: Any, got: Any) -> None:
    """Require results on the device with the dtypes, shapes and bits of others."""
    for right, result in zip(_list(expected), _list(got), strict=True):
        assert device.has(result), f"{about}: on {result.device}"
        assert (right.dtype, right.shape) == (result.dtype, result.shape), (about, right.shape, result.shape)
        difference = bits(right) != bits(result)
        assert not difference.any(), f"{about}: {int(difference.sum())} of {difference.numel()} bytes differ"


def compare(device: Device, about: object, brought: Brought, call: Callable[[Brought], Any]) -> None:
    """Make a call with tensors in CPU memory and with copies on the device, and require the same bits."""
    expected = call([tensor.clone() for tensor in brought])
    require_same(device, about, expected, call([device.late(tensor.clone()) for tensor in brought]))


def first(call: Callable[[torch.Tensor], Any]) -> Callable[[Brought], Any]:
    """Return the same call with the first of some tensors."""
    return lambda tensors: call(tensors[0])


def _list(result: Any) -> Brought:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def values(device: Device) -> None:
    """The cases of all front ends."""
    for case in bound(DeviceFrontEnd(device)).values():
        case()


def allreduce(device: Device) -> None:
    """Every dtype, operation and shape, in place and not; many in flight."""
    for dtype, op in (*reductions(), *((dtype, hvd.Adasum) for dtype in FLOATS)):
        brought = [values_of(dtype, shape, seed) for seed, shape in enumerate(SHAPES)]

        def away(tensors: Brought, op: hvd.ReduceOp = op) -> Brought:
            return [hvd.synchronize(handle) for handle in [hvd.allreduce_async(each, op=op) for each in tensors]]

        def in_place(tensors: Brought, op: hvd.ReduceOp = op) -> Brought:
            for handle in [hvd.allreduce_async_(each, op=op) for each in tensors]:
                hvd.synchronize(handle)
            return tensors

        compare(device, (dtype, op), brought, away)
        compare(device, (dtype, op, "in place"), brought, in_place)


def grouped(device: Device) -> None:
    """Groups of all dtypes, in place and not."""
    brought = [values_of(dtype, (seed + 3, 2), seed) for seed, dtype in enumerate(ENGINE_DTYPES)]
    for op in (hvd.Sum, hvd.Max):
        compare(device, ("grouped", op), brought, partial(hvd.grouped_allreduce, op=op))
        compare(device, ("grouped_", op), brought, partial(hvd.grouped_allreduce_, op=op))


def layouts(device: Device) -> None:
    """Tensors with holes, transposed, in channels_last, and views of larger ones."""
    for dtype in FLOATS:
        image = [values_of(dtype, (2, 3, 8, 9), 1)]
        compare(device, "holes", image, lambda tensors: hvd.allreduce_(tensors[0][:, :, ::2]))
        compare(device, "transposed", image, lambda tensors: hvd.allreduce(tensors[0].transpose(1, 3)))
        compare(device, "a broadcast with holes", image, lambda tensors: hvd.broadcast_(tensors[0][::2, :, 1::3], 0))
        last = [image[0].contiguous(memory_format=torch.channels_last)]
        compare(device, "channels_last", last, lambda tensors: hvd.allreduce_(tensors[0]))


def scales(device: Device) -> None:
    """Factors before and after, and compression to 16 bits."""
    for dtype in (*FLOATS, torch.int32):
        brought = [values_of(dtype, (1031,), 4)]
        scaled = partial(hvd.allreduce, op=hvd.Sum, prescale_factor=0.3, postscale_factor=7.0)
        compare(device, ("scales", dtype), brought, first(scaled))
    finite = [values_of(torch.float32, (1031,), 5, is_finite=True)]
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        squeezed = partial(hvd.allreduce, compression=compression)
        compare(device, compression, finite, first(squeezed))


def reducescatter(device: Device) -> None:
    """Even and uneven rows, fewer rows than ranks, groups."""
    for dtype, op in reductions():
        for rows in (0, 1, hvd.size(), 2 * hvd.size() + 1, 1031):
            brought = [values_of(dtype, (rows, 3), rows)]
            compare(device, (dtype, op, rows), brought, first(partial(hvd.reducescatter, op=op)))
    compare(device, "grouped", [values_of(dtype, (7, 3), 7) for dtype in FLOATS], hvd.grouped_reducescatter)


def moved(device: Device) -> None:
    """Broadcast, ragged allgather and alltoall, of every dtype that torch has."""
    size, rank = hvd.size(), hvd.rank()
    splits = [(rank + other) % 3 for other in range(size)]
    calls: tuple[Callable[[torch.Tensor], Any], ...] = (
        lambda tensor: hvd.broadcast(tensor[:4], size - 1),
        lambda tensor: hvd.allgather(tensor[: 2 + rank]),
        lambda tensor: hvd.allgather(tensor[: 2 * (rank % 2)]),
        lambda tensor: hvd.grouped_allgather([tensor[:1], tensor[: 3 + rank]]),
        lambda tensor: hvd.alltoall(tensor[: 2 * size]),
        lambda tensor: hvd.alltoall(tensor[: sum(splits)], splits=splits)[0],
    )
    for dtype in MOVABLE_DTYPES.values():
        generator = torch.Generator().manual_seed(3000 + rank)
        own = torch.randint(0, 2, (64, 3 * dtype.itemsize), dtype=torch.uint8, generator=generator)
        for number, call in enumerate(calls):
            got = call(device.late(own.clone()).view(dtype))
            require_same(device, (dtype, number), call(own.clone().view(dtype)), got)


def sets(device: Device) -> None:
    """A process set without rank 0, all operations of which are its own."""
    if hvd.size() == 1:
        return
    chosen = hvd.add_process_set(range(1, hvd.size()))
    if chosen.included():
        brought = [values_of(torch.float32, (1031, 2), 6)]
        compare(device, "in a set", brought, lambda tensors: hvd.allreduce(tensors[0], process_set=chosen))
        compare(device, "in a set", brought, lambda tensors: hvd.allgather(tensors[0], process_set=chosen))
    assert hvd.remove_process_set(chosen)


def mixed(device: Device) -> None:
    """Many operations of all kinds in flight, on CPU and device, in another order on every rank."""
    handles: dict[str, tuple[hvd.Handle, hvd.Handle]] = {}
    draws = list(range(200))
    random.Random(hvd.rank()).shuffle(draws)
    for number in draws:
        draw = random.Random(number)
        dtype, shape = draw.choice(ENGINE_DTYPES), (draw.randint(0, 40), draw.randint(1, 900))
        own = values_of(dtype, shape, number)
        calls: tuple[Callable[..., hvd.Handle], ...] = (
            partial(hvd.allreduce_async, op=hvd.Sum),
            partial(hvd.allreduce_async_, op=hvd.Max),
            hvd.allgather_async,
            partial(hvd.broadcast_async, root_rank=number % hvd.size()),
        )
        call = draw.choice(calls)
        on_device = call(device.late(own.clone()), name=f"device.{number}")
        handles[f"mixed.{number}"] = (call(own.clone(), name=f"cpu.{number}"), on_device)
    names = list(handles)
    random.Random(hvd.rank() + 100).shuffle(names)
    for name in names:
        require_same(device, name, *map(hvd.synchronize, handles[name]))


CASES: tuple[Callable[[Any], None], ...] = (
    *(values, allreduce, grouped, layouts, scales, reducescatter, moved, sets, mixed),
)
