# SPDX-License-Identifier: Apache-2.0
"""Checks every collective on every rank against what it must give; any difference ends the rank."""

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say

FLOATS = (torch.float32, torch.float64)
INTEGERS = (torch.int32, torch.int64)


def check_allreduce(rank: int, size: int) -> None:
    """Sums and averages, in place and not, of all dtypes and awkward shapes."""
    for dtype in FLOATS + INTEGERS:
        for shape in ((), (0,), (1,), (7,), (3, 5), (65_537,), (2, 3, 4, 5)):
            base = torch.arange(torch.Size(shape).numel(), dtype=dtype).reshape(shape) % 17
            total = base * sum(r + 1 for r in range(size))
            summed = hvd.allreduce(base * (rank + 1), op=hvd.Sum)
            assert torch.equal(total, summed), (dtype, shape)
            tensor = base * (rank + 1)
            result = hvd.allreduce_(tensor, op=hvd.Average)
            assert result is tensor
            rounding = None if dtype in FLOATS else "trunc"
            assert torch.allclose(torch.div(total, size, rounding_mode=rounding), tensor), (dtype, shape)


def check_exactness(rank: int, size: int) -> None:
    """64-bit integers keep every bit, and floats have the same bits on all ranks."""
    big = torch.tensor([2**62 - 1, -(2**62), 2**53 + 1]) // size
    assert torch.equal(big * size, hvd.allreduce(big, op=hvd.Sum))
    generator = torch.Generator().manual_seed(rank)
    noise = hvd.allreduce(torch.randn(100_003, generator=generator))
    bits = hvd.allgather(noise.view(torch.int32).unsqueeze(0))
    assert all(torch.equal(bits[0], bits[r]) for r in range(size))


def check_strides(rank: int, size: int) -> None:
    """Dense and strided tensors alike are combined by their elements, in place."""
    factor = sum(r + 1 for r in range(size))
    for base in (torch.arange(60.0).reshape(3, 4, 5), torch.arange(120.0).reshape(2, 3, 4, 5)):
        for tensor in (base.clone().transpose(0, 1), base.clone()[..., ::2], base.clone()[1:]):
            before = tensor.clone()
            hvd.allreduce_(tensor.mul_(rank + 1), op=hvd.Sum)
            assert torch.equal(before * factor, tensor)
    image = torch.arange(120.0).reshape(2, 3, 4, 5).to(memory_format=torch.channels_last)
    result = hvd.allreduce(image, op=hvd.Sum)
    assert torch.equal(image * size, result)
    assert result.is_contiguous(memory_format=torch.channels_last)


def check_movement(rank: int, size: int) -> None:
    """Broadcast and allgather move every dtype that the engine knows."""
    dtypes = (torch.uint8, torch.int8, torch.float16, torch.bfloat16, torch.bool, *FLOATS, *INTEGERS)
    for dtype in dtypes:
        mine = torch.full((3, 2), rank, dtype=torch.int32).to(dtype)
        for root in range(size):
            expected = torch.full((3, 2), root, dtype=torch.int32).to(dtype)
            assert torch.equal(expected, hvd.broadcast(mine, root))
        gathered = hvd.allgather(mine)
        assert (3 * size, 2) == tuple(gathered.shape)
        assert all(
            torch.equal(gathered[3 * r : 3 * r + 3].int(), mine.int() * 0 + int(torch.tensor(r).to(dtype)))
            for r in range(size)
        )
    assert torch.equal(torch.arange(size), hvd.allgather(torch.tensor(rank)))


def check_asynchronous(rank: int, size: int) -> None:
    """Many operations may be in flight, waited for in any order."""
    tensors = [torch.full((n * 100 + 1,), float(rank)) for n in range(40)]
    order = range(40) if rank % 2 == 0 else reversed(range(40))
    handles = {n: hvd.allreduce_async_(tensors[n], name=f"many.{n}", op=hvd.Sum) for n in order}
    for n in reversed(range(40)):
        assert torch.equal(torch.full((n * 100 + 1,), float(sum(range(size)))), hvd.synchronize(handles[n]))
    handle = hvd.broadcast_async_(torch.zeros(1), 0)
    hvd.synchronize(handle)
    try:
        hvd.synchronize(handle)
    except hvd.ConfigError:
        return
    raise AssertionError("a handle was synchronized twice")


def check_refusals() -> None:
    """Refuse input that the engine cannot take with a typed error, at no other cost."""
    refused = (
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2, dtype=torch.float8_e5m2),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        [1.0, 2.0],
    )
    for tensor in refused:
        try:
            hvd.allreduce(tensor)  # type: ignore[arg-type]
        except hvd.ConfigError:
            continue
        raise AssertionError(f"{tensor!r} was not refused")
    try:
        hvd.allreduce_(torch.zeros(1).expand(3))
    except hvd.ConfigError:
        return
    raise AssertionError("a tensor whose elements share memory was overwritten")


def main() -> None:
    """Check all."""
    torch.set_num_threads(1)
    hvd.init()
    rank, size = hvd.rank(), hvd.size()
    assert (rank, size) == (hvd.local_rank(), hvd.local_size())
    check_allreduce(rank, size)
    check_exactness(rank, size)
    check_strides(rank, size)
    check_movement(rank, size)
    check_asynchronous(rank, size)
    check_refusals()
    hvd.barrier()
    hvd.shutdown()
    say(f"rank {rank} of {size} is right")


main()
