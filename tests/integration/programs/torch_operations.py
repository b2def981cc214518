# SPDX-License-Identifier: Apache-2.0
"""Checks every operation of the torch front end, dtype by dtype, against what one process computes. Argument: case."""

import json
import math
import random
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import expect_error
from tests.integration.torch_cases import main

FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
INTEGERS = (torch.uint8, torch.int8, torch.int16, torch.uint16, torch.int32, torch.uint32, torch.int64, torch.uint64)
SHAPES = ((), (0,), (1,), (7,), (3, 5), (2, 0, 3), (1031,), (2, 3, 4, 5))
OPS = (hvd.Average, hvd.Sum, hvd.Min, hvd.Max, hvd.Product)


def values_of(rank: int, dtype: torch.dtype, shape: tuple[int, ...], salt: int = 0) -> torch.Tensor:
    """Return a rank's values: small whole numbers, so that every sum and product is exact."""
    generator = torch.Generator().manual_seed(1000 * salt + rank)
    low = 0 if dtype is torch.bool or not dtype.is_signed else -2
    return torch.randint(low, 3, shape, generator=generator).to(dtype)


def reduced(op: hvd.ReduceOp, brought: list[torch.Tensor]) -> torch.Tensor:
    """Return the reduction of what all ranks bring, in the dtype they bring."""
    dtype = brought[0].dtype
    stacked = torch.stack(brought).to(torch.float64 if dtype.is_floating_point else torch.int64)
    if op == hvd.Min:
        result = stacked.amin(0)
    elif op == hvd.Max:
        result = stacked.amax(0)
    elif op == hvd.Product:
        result = stacked.prod(0)
    else:
        result = stacked.sum(0)
    if dtype is torch.bool:
        return result.bool()
    if op == hvd.Average:
        result = torch.div(result, len(brought), rounding_mode=None if dtype.is_floating_point else "trunc")
    return result.to(dtype)


def assert_equal(expected: torch.Tensor, got: torch.Tensor, *about: object) -> None:
    """Require equal dtype, shape and values; averages of floats up to the dtype's rounding."""
    assert expected.dtype is got.dtype, (expected.dtype, got.dtype, *about)
    assert expected.shape == got.shape, (expected.shape, got.shape, *about)
    if expected.dtype.is_floating_point:
        tolerance = 2 * torch.finfo(expected.dtype).eps
        assert torch.allclose(expected.double(), got.double(), rtol=tolerance, atol=tolerance), (expected, got, *about)
    else:
        assert torch.equal(expected, got), (expected, got, *about)


def brought_by_all(dtype: torch.dtype, shape: tuple[int, ...], salt: int) -> list[torch.Tensor]:
    """Return every rank's values."""
    return [values_of(rank, dtype, shape, salt) for rank in range(hvd.size())]


def supported(dtype: torch.dtype) -> list[hvd.ReduceOp]:
    """Return the operations that a dtype takes."""
    return [op for op in OPS if dtype is not torch.bool or op != hvd.Average]


def case_allreduce() -> None:
    """Every operation, dtype and shape; in place and not."""
    for salt, shape in enumerate(SHAPES):
        for dtype in (*FLOATS, *INTEGERS, torch.bool):
            brought = brought_by_all(dtype, shape, salt)
            for op in supported(dtype):
                own = brought[hvd.rank()].clone()
                assert_equal(reduced(op, brought), hvd.allreduce(own, op=op), op, dtype, shape)
                assert torch.equal(brought[hvd.rank()], own)
                assert hvd.allreduce_(own, op=op) is own
                assert_equal(reduced(op, brought), own, op, dtype, shape, "in place")


def case_scales() -> None:
    """The result is postscale * op(prescale * x), of integers truncated; integers wrap."""
    for dtype in FLOATS:
        brought = [4 * tensor for tensor in brought_by_all(dtype, (33,), 1)]
        for op in OPS:
            expected = 2.0 * reduced(op, [0.25 * tensor for tensor in brought])
            got = hvd.allreduce(brought[hvd.rank()], op=op, prescale_factor=0.25, postscale_factor=2.0)
            assert_equal(expected, got, op, dtype)
    own = torch.tensor([7, -7, 1], dtype=torch.int32)
    halved = torch.tensor([3, -3, 0], dtype=torch.int32)
    assert_equal(halved * hvd.size(), hvd.allreduce(own, op=hvd.Sum, prescale_factor=0.5))
    big = torch.tensor([100, -100], dtype=torch.int8)
    assert_equal((big.int() * hvd.size()).to(torch.int8), hvd.allreduce(big, op=hvd.Sum))


def case_adasum() -> None:
    """Orthogonal vectors are added, parallel ones averaged; every rank has the same bits."""
    size, rank = hvd.size(), hvd.rank()
    for dtype in FLOATS:
        own = torch.zeros(size * 3, dtype=dtype)
        own[3 * rank : 3 * rank + 3] = rank + 1
        expected = torch.arange(1, size + 1).repeat_interleave(3).to(dtype)
        assert_equal(expected, hvd.allreduce(own, op=hvd.Adasum), dtype, "orthogonal")
        same = torch.full((5,), 3.0, dtype=dtype)
        assert_equal(same, hvd.allreduce(same, op=hvd.Adasum), dtype, "parallel")
    noise = hvd.allreduce(torch.randn(1001, generator=torch.Generator().manual_seed(rank)), op=hvd.Adasum)
    gathered = hvd.allgather(noise.view(torch.int32).unsqueeze(0))
    assert all(torch.equal(gathered[0], row) for row in gathered)


def case_grouped() -> None:
    """Groups of mixed dtypes, in place and not; a group fails or works as one."""
    for op in (hvd.Average, hvd.Sum, hvd.Max):
        brought = [brought_by_all(dtype, (n + 3, 2), n) for n, dtype in enumerate((*FLOATS, *INTEGERS))]
        own = [tensors[hvd.rank()].clone() for tensors in brought]
        for tensors, got in zip(brought, hvd.grouped_allreduce(own, op=op), strict=True):
            assert_equal(reduced(op, tensors), got, op)
        results = hvd.grouped_allreduce_(own, op=op)
        for tensors, got, mine in zip(brought, results, own, strict=True):
            assert got is mine
            assert_equal(reduced(op, tensors), got, op, "in place")
    assert [] == hvd.grouped_allreduce([])
    if hvd.size() == 1:
        return
    sound, odd = torch.full((3,), float(hvd.rank())), torch.ones(2 + hvd.rank())
    handle = hvd.grouped_allreduce_async_([sound, odd], name="failing")
    expect_error(hvd.MismatchError, "failing.1", lambda: hvd.synchronize(handle))
    assert torch.equal(torch.full((3,), float(hvd.rank())), sound), "a member of a failed group was reduced"
    assert_equal(torch.ones(3), hvd.allreduce(torch.ones(3)))


def case_allgather() -> None:
    """Ragged rows, none at all, several tensors at once, every dtype."""
    for dtype in (*FLOATS, *INTEGERS, torch.bool):
        for row in ((), (3,), (2, 0), (2, 2)):
            brought = [values_of(rank, dtype, ((5 * rank + 2) % 4, *row), 3) for rank in range(hvd.size())]
            own = brought[hvd.rank()]
            assert_equal(torch.cat(brought), hvd.allgather(own), dtype, row)
            doubled, same = hvd.grouped_allgather([torch.cat([own, own]), own])
            assert_equal(torch.cat([torch.cat([tensor, tensor]) for tensor in brought]), doubled)
            assert_equal(torch.cat(brought), same)
    assert_equal(torch.arange(hvd.size()), hvd.allgather(torch.tensor(hvd.rank())))
    assert_equal(torch.zeros(0, 2), hvd.allgather(torch.zeros(0, 2)))
    mine = torch.arange(6.0).reshape(2, 3) + hvd.rank()
    everybodys = torch.cat([(torch.arange(6.0).reshape(2, 3) + rank).t() for rank in range(hvd.size())])
    assert_equal(everybodys, hvd.allgather(mine.t()))


def case_reducescatter() -> None:
    """Even and uneven rows, fewer rows than ranks, every operation and dtype, groups."""
    size, rank = hvd.size(), hvd.rank()
    for rows in (0, 1, size, 2 * size, 2 * size + 1, 7):
        counts = [rows // size + (1 if other < rows % size else 0) for other in range(size)]
        start = sum(counts[:rank])
        for dtype in (*FLOATS, *INTEGERS, torch.bool):
            brought = brought_by_all(dtype, (rows, 3), rows)
            for op in supported(dtype):
                expected = reduced(op, brought)[start : start + counts[rank]]
                assert_equal(expected, hvd.reducescatter(brought[rank], op=op), op, dtype, rows)
        brought = brought_by_all(torch.float32, (rows, 3), rows)
        expected = reduced(hvd.Average, brought)[start : start + counts[rank]]
        both = hvd.grouped_reducescatter([brought[rank], brought[rank].double()])
        assert_equal(expected, both[0], "grouped")
        assert_equal(reduced(hvd.Average, brought).double()[start : start + counts[rank]].float(), both[1].float())


def case_alltoall() -> None:
    """Equal and uneven splits, as lists and tensors, every dtype."""
    size, rank = hvd.size(), hvd.rank()
    for dtype in (*FLOATS, *INTEGERS, torch.bool):
        equal = [values_of(other, dtype, (2 * size, 3), 5) for other in range(size)]
        expected = torch.cat([tensor[2 * rank : 2 * rank + 2] for tensor in equal])
        got = hvd.alltoall(equal[rank])
        assert isinstance(got, torch.Tensor)
        assert_equal(expected, got, dtype)
        splits = [[(other + target) % 3 for target in range(size)] for other in range(size)]
        uneven = [values_of(other, dtype, (sum(splits[other]), 2), 6) for other in range(size)]
        parts = [uneven[other].split(splits[other])[rank] for other in range(size)]
        received = [splits[other][rank] for other in range(size)]
        result = hvd.alltoall(uneven[rank], splits=splits[rank])
        assert_equal(torch.cat(parts), result[0], dtype)
        assert_equal(torch.tensor(received, dtype=torch.int32), result[1])
        handle = hvd.alltoall_async(uneven[rank], splits=torch.tensor(splits[rank]))
        rows, counts = hvd.synchronize(handle)
        assert_equal(torch.cat(parts), rows, dtype, "asynchronous")
        assert_equal(torch.tensor(received), counts)
    expect_error(hvd.ConfigError, "splits", lambda: hvd.alltoall(torch.zeros(3), splits=[1] * size + [9]))


def case_sparse() -> None:
    """Sparse tensors are combined by their elements, also where a rank has none; the handle may be called."""
    size, rank = hvd.size(), hvd.rank()
    for op, divisor in ((hvd.Sum, 1), (hvd.Average, size)):
        dense = [values_of(other, torch.float32, (9, 2), 8) * (other != 1) for other in range(size)]
        handle = hvd.sparse_allreduce_async(dense[rank].to_sparse(1), name="embedding", op=op)
        result = handle() if op == hvd.Sum else hvd.synchronize(handle)
        assert result.is_sparse
        assert_equal(torch.stack(dense).sum(0) / divisor, result.to_dense(), op)
    expect_error(hvd.ConfigError, "COO", lambda: hvd.sparse_allreduce_async(torch.zeros(2), "x", hvd.Sum))
    expect_error(hvd.ConfigError, "Max", lambda: hvd.sparse_allreduce_async(torch.zeros(2).to_sparse(), "x", hvd.Max))


def case_mixed() -> None:
    """Many operations of all kinds and dtypes in flight, submitted in another order on every rank."""
    size, rank = hvd.size(), hvd.rank()
    expected: dict[str, torch.Tensor] = {}
    starts: dict[str, Callable[[], hvd.Handle]] = {}
    for number in range(120):
        draw = random.Random(number)
        dtype = draw.choice((*FLOATS, *INTEGERS))
        shape = (draw.randint(0, 40), draw.randint(1, 9))
        name, op = f"mixed.{number}", draw.choice(OPS)
        brought = brought_by_all(dtype, shape, number)
        kind = draw.choice(("allreduce", "allreduce_", "allgather", "broadcast"))
        if kind == "allgather":
            expected[name] = torch.cat(brought)
            starts[name] = partial(hvd.allgather_async, brought[rank], name=name)
        elif kind == "broadcast":
            expected[name] = brought[number % size]
            starts[name] = partial(hvd.broadcast_async, brought[rank], number % size, name=name)
        else:
            start = hvd.allreduce_async if kind == "allreduce" else hvd.allreduce_async_
            expected[name] = reduced(op, brought)
            starts[name] = partial(start, brought[rank].clone(), name=name, op=op)
    order = list(starts)
    random.Random(rank).shuffle(order)
    handles = {name: starts[name]() for name in order}
    random.Random(rank + 100).shuffle(order)
    for name in order:
        assert_equal(expected[name], hvd.synchronize(handles[name]), name)


def case_handles() -> None:
    """Handles are polled until they are done, and are no numbers that could be mixed up."""
    handle = hvd.allreduce_async(torch.ones(4), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert_equal(torch.full((4,), float(hvd.size())), hvd.synchronize(handle))
    expect_error(hvd.ConfigError, "handle", lambda: hvd.poll(handle))
    expect_error(hvd.ConfigError, "handle 7", lambda: hvd.synchronize(7))  # type: ignore[arg-type]


def case_objects() -> None:
    """Every rank's plain data reaches every rank; what is no plain data is an error on all."""
    tensors = [torch.arange(hvd.rank()), torch.ones(2, dtype=torch.bfloat16)]
    own = {"rank": hvd.rank(), "tensors": tensors, "limit": math.inf}
    told = hvd.allgather_object(own)
    for rank, data in enumerate(told):
        assert (rank, math.inf) == (data["rank"], data["limit"])
        assert_equal(torch.arange(rank), data["tensors"][0])
        assert_equal(torch.ones(2, dtype=torch.bfloat16), data["tensors"][1])
    assert ["", "x", "xx", "xxx"][: hvd.size()] == hvd.allgather_object("x" * hvd.rank(), name="texts")
    last = hvd.size() - 1
    bad = object() if hvd.rank() == last else 1
    expect_error(hvd.ConfigError, f"rank {last}", lambda: hvd.allgather_object(bad))


def case_facts() -> None:
    """Answer a program's questions truthfully, and write the timeline between start and stop."""
    assert hvd.is_homogeneous()
    assert hvd.size() == hvd.cross_size() * hvd.local_size()
    assert hvd.rank() == hvd.cross_rank() * hvd.local_size() + hvd.local_rank()
    built = (
        hvd.gloo_built,
        hvd.gloo_enabled,
        hvd.nccl_built,
        hvd.ddl_built,
        hvd.ccl_built,
        hvd.cuda_built,
        hvd.rocm_built,
    )
    assert not any(question() for question in built)
    assert hvd.mpi_threads_supported() == hvd.mpi_enabled()
    assert hvd.mpi_built() in {True, False}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"trace_of_{hvd.rank()}.json"
        hvd.start_timeline(str(path), mark_cycles=True)
        hvd.allreduce(torch.ones(3), name="traced")
        hvd.stop_timeline()
        hvd.allreduce(torch.ones(3), name="untraced")
        traces = [file.read_text(encoding="utf-8") for file in Path(folder).iterdir()]
    assert len(traces) == 1, traces
    assert json.loads(traces[0])
    assert "allreduce.traced" in traces[0]
    assert "untraced" not in traces[0]


def case_refusals() -> None:
    """Refuse an operation on the wrong dtype before anything is submitted; the message names the supported ones."""
    for op in (hvd.Average, hvd.Adasum):
        expect_error(hvd.ConfigError, "does not support bool", partial(hvd.allreduce, torch.ones(2).bool(), op=op))
    expect_error(hvd.ConfigError, "it supports float16", lambda: hvd.allreduce(torch.ones(2).int(), op=hvd.Adasum))
    expect_error(TypeError, "complex64", lambda: hvd.reducescatter(torch.zeros(2, dtype=torch.complex64)))
    expect_error(hvd.ConfigError, "one dimension", lambda: hvd.reducescatter(torch.tensor(1.0)))
    expect_error(hvd.ConfigError, "op=9", lambda: hvd.allreduce(torch.zeros(1), op=9))  # type: ignore[arg-type]
    expect_error(hvd.ConfigError, "not both", lambda: hvd.allreduce(torch.zeros(1), average=True, op=hvd.Sum))
    expect_error(hvd.ConfigError, f"rank {hvd.size()}", lambda: hvd.broadcast(torch.zeros(1), hvd.size()))


if __name__ == "__main__":
    main(globals())
