# SPDX-License-Identifier: Apache-2.0
"""Every operation, dtype and odd size on a device, bit for bit what the engine computes in CPU memory."""

import random
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch

import ringtune.torch as hvd
from ringtune.torch.buffers import ENGINE_DTYPES, MOVABLE_DTYPES
from tests.gpu.checks import Bench, checks_of, main

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
SHAPES = ((), (0,), (1,), (3, 5), (2, 0, 3), (1031,), (65537,), (2, 3, 4, 5))
LARGE = ((1 << 20) + 3,)
OPS = (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)

Brought = list[torch.Tensor]


def values_of(dtype: torch.dtype, shape: Sequence[int], seed: int, rank: int | None = None) -> torch.Tensor:
    """Return a rank's values, this one's by default, in CPU memory: their sums round, and some are NaN."""
    generator = torch.Generator().manual_seed(1000 * seed + (hvd.rank() if rank is None else rank))
    if dtype is torch.bool:
        return torch.rand(tuple(shape), generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 100, tuple(shape), generator=generator).to(dtype)
    values = torch.randn(tuple(shape), generator=generator, dtype=torch.float64)
    flat = values.view(-1)
    flat[7::101] = float("nan")
    flat[11::103] = float("inf")
    return values.to(dtype)


def bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's bytes, in CPU memory."""
    flat = tensor.detach().contiguous() if tensor.dtype in ENGINE_DTYPES else tensor.detach()
    return flat.reshape(-1).view(torch.uint8).cpu() if flat.numel() else torch.empty(0, dtype=torch.uint8)


def require_same(expected: Brought, got: Brought, about: str, device: torch.device) -> None:
    """Require results on the device with the reference's dtypes, shapes and bits."""
    assert len(expected) == len(got), about
    for right, result in zip(expected, got, strict=True):
        assert result.device == device, f"{about}: on {result.device}"
        assert (right.dtype, right.shape) == (result.dtype, result.shape), (about, right.shape, result.shape)
        difference = bits(right) != bits(result)
        assert not difference.any(), f"{about}: {int(difference.sum())} of {difference.numel()} bytes differ"


def compare(bench: Bench, about: str, brought: Brought, call: Callable[[Brought], Any]) -> None:
    """Make a call with tensors in CPU memory and with copies on the device, and require the same bits."""
    expected = call([tensor.clone() for tensor in brought])
    poison(bench, brought)
    got = call([tensor.to(bench.device, copy=True) for tensor in brought])
    require_same(_list(expected), _list(got), about, bench.device)


def poison(bench: Bench, brought: Brought) -> None:
    """Fill the memory that results are likely to get with what no result has."""
    for tensor in brought if bench.is_gpu else ():
        torch.full((max(1, tensor.nbytes),), 0x5A, dtype=torch.uint8, device=bench.device)


def first(call: Callable[[torch.Tensor], Any]) -> Callable[[Brought], Any]:
    """Return the same call with the first of some tensors."""
    return lambda tensors: call(tensors[0])


def _list(result: Any) -> Brought:
    return [result] if isinstance(result, torch.Tensor) else list(result)


def reductions() -> Iterator[tuple[torch.dtype, hvd.ReduceOp]]:
    """Return the dtypes and operations that go together."""
    for dtype in ENGINE_DTYPES:
        for op in OPS:
            if dtype is not torch.bool or op != hvd.Average:
                yield dtype, op
        if dtype in FLOATS:
            yield dtype, hvd.Adasum


def check_allreduce(bench: Bench) -> dict[str, int]:
    """Every operation, dtype and shape, in place and not, many in flight at a time."""
    count = 0
    for dtype, op in reductions():
        brought = [values_of(dtype, shape, seed) for seed, shape in enumerate(SHAPES)]

        def away(tensors: Brought, op: hvd.ReduceOp = op) -> Brought:
            return [hvd.synchronize(handle) for handle in [hvd.allreduce_async(tensor, op=op) for tensor in tensors]]

        def in_place(tensors: Brought, op: hvd.ReduceOp = op) -> Brought:
            for handle in [hvd.allreduce_async_(tensor, op=op) for tensor in tensors]:
                hvd.synchronize(handle)
            return tensors

        compare(bench, f"allreduce of {dtype}, {op!r}", brought, away)
        compare(bench, f"allreduce_ of {dtype}, {op!r}", brought, in_place)
        count += 2 * len(brought)
    return {"operations": count}


def check_large(bench: Bench) -> dict[str, int]:
    """Tensors larger than the fusion buffer's chunks, with odd ends, at odd addresses."""
    for dtype in FLOATS:
        whole = values_of(dtype, LARGE, 1)
        compare(bench, f"large {dtype}", [whole], lambda tensors: hvd.allreduce_(tensors[0]))
        compare(bench, f"large {dtype}, odd address", [whole], lambda tensors: hvd.allreduce_(tensors[0][1:]))
    huge = values_of(torch.float32, ((1 << 24) + 1,), 2)
    compare(bench, "64 MiB and 4 bytes", [huge], lambda tensors: hvd.allreduce(tensors[0], op=hvd.Sum))
    return {"bytes": huge.nbytes}


def check_grouped(bench: Bench) -> None:
    """Groups of all dtypes, in place and not."""
    brought = [values_of(dtype, (seed + 3, 2), seed) for seed, dtype in enumerate(ENGINE_DTYPES)]
    for op in (hvd.Sum, hvd.Max):
        compare(bench, f"grouped {op!r}", brought, partial(hvd.grouped_allreduce, op=op))
        compare(bench, f"grouped_ {op!r}", brought, partial(hvd.grouped_allreduce_, op=op))


def check_layouts(bench: Bench) -> None:
    """Tensors with holes, transposed, in channels_last, and views of larger ones."""
    for dtype in FLOATS:
        image = values_of(dtype, (2, 3, 8, 9), 1)
        compare(bench, "holes", [image], lambda tensors: hvd.allreduce_(tensors[0][:, :, ::2]))
        compare(bench, "transposed", [image], lambda tensors: hvd.allreduce(tensors[0].transpose(1, 3)))
        compare(
            bench,
            "channels_last",
            [image],
            lambda tensors: hvd.allreduce_(tensors[0].to(memory_format=torch.channels_last)),
        )
        compare(bench, "broadcast with holes", [image], lambda tensors: hvd.broadcast_(tensors[0][::2, :, 1::3], 0))


def check_scales(bench: Bench) -> None:
    """Factors before and after, and compression to 16 bits."""
    for dtype in (*FLOATS, torch.int32):
        brought = [values_of(dtype, (1031,), 4)]
        scaled = partial(hvd.allreduce, op=hvd.Sum, prescale_factor=0.3, postscale_factor=7.0)
        compare(bench, f"scales of {dtype}", brought, first(scaled))
    for compression in (hvd.Compression.fp16, hvd.Compression.bf16):
        finite = [values_of(torch.float32, (1031,), 5).nan_to_num(0.0, 1.0, -1.0)]
        squeezed = partial(hvd.allreduce, compression=compression)
        compare(bench, f"{compression.__name__}", finite, first(squeezed))


def check_reducescatter(bench: Bench) -> None:
    """Even and uneven rows, fewer rows than ranks, groups."""
    for dtype, op in reductions():
        if op is hvd.Adasum:
            continue
        for rows in (0, 1, hvd.size(), 2 * hvd.size() + 1, 1031):
            brought = [values_of(dtype, (rows, 3), rows)]
            about = f"reducescatter of {rows} rows, {dtype}, {op!r}"
            compare(bench, about, brought, first(partial(hvd.reducescatter, op=op)))
    both = [values_of(dtype, (7, 3), 7) for dtype in FLOATS]
    compare(bench, "grouped reducescatter", both, hvd.grouped_reducescatter)


def moved(dtype: torch.dtype, rows: int, seed: int) -> torch.Tensor:
    """Return rows of any dtype: three elements each, made of random bytes."""
    generator = torch.Generator().manual_seed(1000 * seed + hvd.rank())
    return torch.randint(0, 2, (rows, 3 * dtype.itemsize), dtype=torch.uint8, generator=generator).view(dtype)


def to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Return a copy on a device, of dtypes too that torch cannot copy."""
    return tensor.view(torch.uint8).to(device, copy=True).view(tensor.dtype)


def check_moved(bench: Bench) -> dict[str, int]:
    """Broadcast, allgather of ragged rows and alltoall, of every dtype that torch has."""
    size, rank = hvd.size(), hvd.rank()
    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "broadcast": lambda tensor: hvd.broadcast(tensor[:4], size - 1),
        "allgather": lambda tensor: hvd.allgather(tensor[: 2 + rank]),
        "allgather of nothing": lambda tensor: hvd.allgather(tensor[: 2 * (rank % 2)]),
        "grouped allgather": lambda tensor: hvd.grouped_allgather([tensor[:1], tensor[: 3 + rank]]),
        "alltoall": lambda tensor: hvd.alltoall(tensor[: 2 * size]),
        "uneven alltoall": lambda tensor: hvd.alltoall(
            tensor[: sum((rank + other) % 3 for other in range(size))],
            splits=[(rank + other) % 3 for other in range(size)],
        )[0],
    }
    for dtype in MOVABLE_DTYPES.values():
        rows = moved(dtype, 64, 3)
        for name, call in calls.items():
            expected = _list(call(rows))
            got = _list(call(to_device(rows, bench.device)))
            require_same(expected, got, f"{name} of {dtype}", bench.device)
    many = values_of(torch.float32, (10_007 + rank, 5), 9)
    compare(bench, "large allgather", [many], lambda tensors: hvd.allgather(tensors[0]))
    return {"dtypes": len(MOVABLE_DTYPES)}


def check_splits_on_the_device(bench: Bench) -> None:
    """The numbers of received rows are where the splits are."""
    splits = torch.tensor([1] * hvd.size(), device=bench.device)
    rows, received = hvd.alltoall(torch.ones(hvd.size(), 2, device=bench.device), splits=splits)
    assert (bench.device, bench.device) == (rows.device, received.device)
    assert [1] * hvd.size() == received.tolist()


def check_sparse(bench: Bench) -> None:
    """Sparse tensors are combined by their elements."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        dense = values_of(dtype, (33, 4), 8).nan_to_num(0.0, 1.0, -1.0)
        dense[hvd.rank() :: 3] = 0

        def call(tensors: Brought) -> Brought:
            handle = hvd.sparse_allreduce_async(tensors[0].to_sparse(1), "table", hvd.Average)
            result = hvd.synchronize(handle)
            return [result.indices(), result.values()]

        compare(bench, f"sparse {dtype}", [dense], call)


def check_autograd(bench: Bench) -> None:
    """Gradients flow back through every differentiable operation."""
    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "allreduce": hvd.allreduce,
        "broadcast": lambda tensor: hvd.broadcast(tensor, 0),
        "allgather": hvd.allgather,
        "reducescatter": hvd.reducescatter,
        "alltoall": hvd.alltoall,
    }
    for name, call in calls.items():

        def gradient(tensors: Brought, call: Callable[[torch.Tensor], Any] = call) -> Brought:
            own = tensors[0].requires_grad_()
            call(own).square().sum().backward()
            assert own.grad is not None
            return [own.grad]

        brought = [values_of(torch.float64, (2 * hvd.size(), 3), 3).nan_to_num(0.0, 1.0, -1.0)]
        compare(bench, name, brought, gradient)


def check_sets(bench: Bench) -> None:
    """A process set of some ranks, all operations of which are its own."""
    chosen = hvd.add_process_set([rank for rank in range(hvd.size()) if rank != 1])
    if chosen.included():
        brought = [values_of(torch.float32, (1031,), 6)]
        compare(bench, "in a set", brought, lambda tensors: hvd.allreduce(tensors[0], process_set=chosen))
        compare(bench, "in a set", brought, lambda tensors: hvd.allgather(tensors[0], process_set=chosen))
    assert hvd.remove_process_set(chosen)


def check_objects(bench: Bench) -> None:
    """Tensors in plain data arrive on the device, those in CPU memory there."""
    own = {"moment": values_of(torch.bfloat16, (3, 4), 2).to(bench.device), "step": torch.tensor(3.0, device="cpu")}
    for told in (*hvd.allgather_object(own), hvd.broadcast_object(own, hvd.size() - 1)):
        assert (bench.device, bench.reference) == (told["moment"].device, told["step"].device)
    last = values_of(torch.bfloat16, (3, 4), 2, rank=hvd.size() - 1).to(bench.device)
    assert torch.equal(bits(last), bits(hvd.broadcast_object(own, hvd.size() - 1)["moment"]))


def check_mixed(bench: Bench) -> dict[str, int]:
    """Many operations of all kinds in flight, on CPU and device, in another order on every rank."""
    handles: dict[str, tuple[hvd.Handle, hvd.Handle]] = {}
    draws = list(range(200))
    random.Random(hvd.rank()).shuffle(draws)
    for number in draws:
        draw = random.Random(number)
        dtype, shape = draw.choice(ENGINE_DTYPES), (draw.randint(0, 40), draw.randint(1, 900))
        own = values_of(dtype, shape, number)
        call: Callable[..., hvd.Handle] = draw.choice(
            (
                partial(hvd.allreduce_async, op=hvd.Sum),
                partial(hvd.allreduce_async_, op=hvd.Max),
                hvd.allgather_async,
                partial(hvd.broadcast_async, root_rank=number % hvd.size()),
            )
        )
        handles[f"mixed.{number}"] = (
            call(own.clone(), name=f"cpu.{number}"),
            call(own.to(bench.device, copy=True), name=f"device.{number}"),
        )
    names = list(handles)
    random.Random(hvd.rank() + 100).shuffle(names)
    for name in names:
        expected, got = map(hvd.synchronize, handles[name])
        require_same([expected], [got], name, bench.device)
    return {"operations": 2 * len(names)}


if __name__ == "__main__":
    main(checks_of(globals()))
