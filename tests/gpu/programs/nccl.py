# SPDX-License-Identifier: Apache-2.0
"""CUDA tensors by NCCL: which go by it, with which values, in process sets, again after a new start.

Ranks may share the GPU (`RINGTUNE_GPU_OPERATIONS=nccl`, and a `NCCL_HOSTID` of its own for each rank: NVIDIA does not
support it, but two ranks of NCCL need no second GPU then). Without a GPU no tensor goes by NCCL, and values are
compared.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from ringtune.torch.buffers import ENGINE_DTYPES
from tests.collectives.same_bits import FLOATS, reductions, values_of
from tests.gpu.checks import Bench, checks_of, main

NEVER = (torch.bool, torch.int16, torch.uint16)  # no type of NCCL's
SHAPES = ((1,), (3, 5), (0,), (1031,), (65537,))


def by_nccl() -> int:
    """Return the number of collectives that this rank has done by NCCL."""
    return SESSION.require().engine.counters()["nccl_responses"]


def goes_by_nccl(dtype: torch.dtype, op: hvd.ReduceOp) -> bool:
    """Return whether the table of meanings in docs/howto/gpu.md says NCCL."""
    if dtype in NEVER or op is hvd.Adasum:
        return False
    if op == hvd.Average:
        return dtype in FLOATS
    return op in {hvd.Sum, hvd.Product} or dtype not in FLOATS


def require_same(bench: Bench, expected: torch.Tensor, got: torch.Tensor, about: str) -> None:
    """Require the same values; one NaN is as good as another."""
    assert got.device == bench.device, f"{about}: on {got.device}"
    back = got.cpu()
    assert torch.equal(expected.isnan(), back.isnan()), about
    assert torch.equal(expected.nan_to_num(), back.nan_to_num()), about


def compare(bench: Bench, about: str, own: torch.Tensor, call: Callable[[torch.Tensor], torch.Tensor]) -> int:
    """Require the same result on the device as in CPU memory; return how many collectives went by NCCL."""
    expected = call(own.clone())
    before = by_nccl()
    got = call(bench.late(own))
    require_same(bench, expected, got, about)
    return by_nccl() - before


def check_reductions(bench: Bench) -> dict[str, int]:
    """Every dtype and operation: by NCCL where its meaning is ours, with the values that CPUs give."""
    counts = {"by NCCL": 0, "by the host": 0}
    for dtype, op in reductions():
        is_expected = bench.is_gpu and goes_by_nccl(dtype, op)
        for seed, shape in enumerate(SHAPES):
            about = f"allreduce of {dtype}, {op!r}, {shape}"
            used = compare(bench, about, values_of(dtype, shape, seed), partial(hvd.allreduce, op=op))
            assert used == int(is_expected), f"{about}: {used} by NCCL"
        counts["by NCCL" if is_expected else "by the host"] += 1
    return counts


def check_scales(bench: Bench) -> dict[str, int]:
    """Any factor before and after the sum of floats, by NCCL itself or by kernels; those of integers by the host."""
    used = 0
    for dtype in FLOATS:
        own = values_of(dtype, (1031,), 4)
        for before, after in ((0.25, 1.0), (0.3, 1.0), (1.0, 0.3), (0.7, 1.1), (0.0, 1.0)):
            scaled = partial(hvd.allreduce, op=hvd.Sum, prescale_factor=before, postscale_factor=after)
            used += compare(bench, f"{before} and {after}, {dtype}", own, scaled)
        used += compare(bench, f"averaged, {dtype}", own, partial(hvd.allreduce, op=hvd.Average, prescale_factor=0.3))
    assert used == 6 * len(FLOATS) * int(bench.is_gpu), used
    whole = values_of(torch.int32, (1031,), 4)
    assert compare(bench, "integers", whole, partial(hvd.allreduce, op=hvd.Sum, prescale_factor=0.5)) == 0
    return {"by NCCL": used}


def check_packed(bench: Bench) -> dict[str, int]:
    """Groups of small and large tensors, misaligned ones too: the values of CPU memory, however they are packed."""
    before = SESSION.require().engine.counters()["nccl_packed_tensors"]
    for dtype in (torch.int8, torch.float16, torch.bfloat16, torch.float32, torch.int64, torch.float64):
        sizes = [1 + number % 5 for number in range(300)] + [1031, 70_001, 3, 400_000]
        own = [values_of(torch.float32, (size,), number).to(dtype) for number, size in enumerate(sizes)]
        expected = hvd.grouped_allreduce([tensor.clone() for tensor in own], op=hvd.Sum)
        flat = torch.cat([own[0].new_zeros(1), *own]).to(bench.device)  # one after the other: at any address
        parts = list(flat[1:].split(sizes))
        hvd.grouped_allreduce_(parts, op=hvd.Sum)
        for size, right, got in zip(sizes, expected, parts, strict=True):
            require_same(bench, right, got, f"{size} of {dtype}")
    return {"packed": SESSION.require().engine.counters()["nccl_packed_tensors"] - before}


def check_rounds(bench: Bench) -> dict[str, int]:
    """A tensor that is averaged in a wider type, and larger than the buffer, takes several rounds."""
    own = torch.arange(40_000_001, dtype=torch.int32).remainder(2039).to(torch.float16) * (1 + hvd.rank())
    used = compare(bench, "80 MB of float16", own, hvd.allreduce)
    assert used == int(bench.is_gpu), used
    return {"by NCCL": used}


def check_broadcast(bench: Bench) -> None:
    """Any dtype, from the last rank."""
    for dtype in ENGINE_DTYPES:
        used = compare(bench, f"{dtype}", values_of(dtype, (1031,), 3), lambda own: hvd.broadcast(own, hvd.size() - 1))
        assert used == int(bench.is_gpu), dtype


def check_reducescatter(bench: Bench) -> None:
    """Even and uneven rows, fewer rows than ranks."""
    for rows in (hvd.size(), 2 * hvd.size() + 1, 1, 1032):
        own = values_of(torch.bfloat16, (rows, 3), rows)
        used = compare(bench, f"{rows} rows", own, lambda own: hvd.reducescatter(own, op=hvd.Sum))
        assert used == int(bench.is_gpu), rows


def check_rows(bench: Bench) -> dict[str, int]:
    """Allgather and alltoall, even, uneven and empty, of many dtypes; results outlive those that come after them."""
    size, rank = hvd.size(), hvd.rank()
    calls: dict[str, Callable[[torch.Tensor], Any]] = {
        "even": hvd.allgather,
        "uneven": lambda own: hvd.allgather(own[: 1 + 500 * rank]),
        "some empty": lambda own: hvd.allgather(own[: 700 * (rank % 2)]),
        "all empty": lambda own: hvd.allgather(own[:0]),
        "sent": lambda own: hvd.alltoall(own[: 300 * size]),
        "sent unevenly": lambda own: hvd.alltoall(own[: sum(range(size)) * 9], [9 * to for to in range(size)])[0],
    }
    used, kept = 0, []
    for dtype in (torch.bool, torch.int16, torch.bfloat16, torch.float32, torch.complex64, torch.float64):
        own = values_of(torch.float32, (1031, 3), 5).nan_to_num().to(dtype)
        for about, call in calls.items():
            expected, before = call(own.clone()), by_nccl()
            got = call(own.to(bench.device, copy=True))
            used += by_nccl() - before
            kept.append((f"{about}, {dtype}", expected, got))
    for about, expected, got in kept:
        assert got.device == bench.device, about
        assert torch.equal(expected, got.cpu()), about
    assert used == (len(kept) if bench.is_gpu else 0)
    return {"by NCCL": used}


def check_fused(bench: Bench) -> dict[str, int]:
    """Many tensors in flight are grouped; each is right, also behind a late kernel on a side stream."""
    before = by_nccl()
    for number in range(5):
        bench.sleep(2.0)
        own = [torch.full((1 + 517 * part,), hvd.rank() + 1.0 + number, device=bench.device) for part in range(40)]
        handles = [hvd.allreduce_async_(tensor, name=f"part.{part}", op=hvd.Sum) for part, tensor in enumerate(own)]
        for handle in handles:
            hvd.synchronize(handle)
        right = sum(range(1, hvd.size() + 1)) + number * hvd.size()
        assert all(bool((tensor == right).all()) for tensor in own), number
    used = by_nccl() - before
    assert used <= 5 * 40
    return {"collectives": used, "tensors": 5 * 40}


def check_sets(bench: Bench) -> dict[str, int]:
    """A process set has a communicator of its own."""
    if hvd.size() == 1:
        return {}
    lone = hvd.add_process_set([hvd.size() - 1])
    counted = 0
    for number in range(4):
        own = torch.full((1031,), float(hvd.rank() + number), device=bench.device)
        everywhere = hvd.allreduce(own, op=hvd.Sum)
        assert bool((everywhere == sum(range(hvd.size())) + number * hvd.size()).all())
        if lone.included():
            assert bool((hvd.allreduce(own, op=hvd.Sum, process_set=lone) == hvd.rank() + number).all())
            counted = lone.world.engine.counters()["nccl_responses"]
            assert counted == (number + 1 if bench.is_gpu else 0)
    assert hvd.remove_process_set(lone)
    return {"in the set": counted}


def check_join(bench: Bench) -> None:
    """While a rank has joined, the others' tensors go through the host."""
    own = torch.ones(1031, device=bench.device)
    for number in range(3 * (hvd.rank() > 0)):
        assert bool((hvd.allreduce(own, name=f"late.{number}", op=hvd.Sum) == hvd.size() - 1).all())
    hvd.join()
    assert bool((hvd.allreduce(own, op=hvd.Sum) == hvd.size()).all())


def check_capture(bench: Bench) -> None:
    """A stream under capture is refused; the engine works on."""
    if not bench.is_gpu:
        return
    own = torch.ones(1031, device=bench.device)
    hvd.allreduce_(own, op=hvd.Sum)
    bench.finish()
    try:
        with torch.cuda.graph(torch.cuda.CUDAGraph()):
            hvd.allreduce_async_(own, name="captured", op=hvd.Sum)
    except hvd.ConfigError as error:
        assert "captured" in str(error)  # noqa: PT017  (the graph's own end may raise as well)
    else:
        raise AssertionError("a captured stream was taken")
    require_same(bench, torch.full((3,), float(hvd.size())), hvd.allreduce(own.new_ones(3), op=hvd.Sum), "after it")


if __name__ == "__main__":
    main(checks_of(globals()))
