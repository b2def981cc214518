# SPDX-License-Identifier: Apache-2.0
"""Horovod's meanings that its programs rely on: dtypes, averages of integers, None, join, refusals."""

import numpy as np
import torch

import ringtune.torch as hvd
from ringtune.torch.buffers import MOVABLE_DTYPES
from tests.integration.plain_rank import expect_error, say

ROWS, COLUMNS = 3, 4


def bits(number: int, dtype: torch.dtype) -> torch.Tensor:
    """Return bytes that differ between ranks; zeros and ones, which every dtype has."""
    generator = torch.Generator().manual_seed(number)
    return torch.randint(0, 2, (ROWS, COLUMNS * dtype.itemsize), generator=generator).to(torch.uint8)


def as_bits(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor's bytes, for torch compares not all dtypes."""
    return tensor.contiguous().reshape(-1).view(torch.uint8)


def case_moves() -> None:
    """Broadcast, allgather and alltoall move every dtype bit by bit, whether torch can compute with it or not."""
    size, rank = hvd.size(), hvd.rank()
    for name, dtype in MOVABLE_DTYPES.items():
        brought = [bits(number, dtype).view(dtype) for number in range(size)]
        own = brought[rank]
        assert torch.equal(as_bits(brought[-1]), as_bits(hvd.broadcast(own, size - 1))), name
        gathered = hvd.allgather(own)
        assert dtype is gathered.dtype
        assert torch.equal(torch.cat([as_bits(part) for part in brought]), as_bits(gathered)), name
        received, _ = hvd.alltoall(own, splits=[ROWS if other == rank else 0 for other in range(size)])
        assert torch.equal(as_bits(own), as_bits(received)), name
        (grouped,) = hvd.grouped_allgather([own])
        assert torch.equal(as_bits(gathered), as_bits(grouped)), name


def case_lazy_views() -> None:
    """The values of conjugated and negated views are sent, not the memory behind them; results arrive in them."""
    size, rank = hvd.size(), hvd.rank()
    values = torch.tensor([1 + 2j, 3 - 4j]) * (rank + 1)
    last = torch.tensor([1 + 2j, 3 - 4j]) * size
    assert torch.equal(last.conj().resolve_conj(), hvd.broadcast(values.conj(), size - 1))
    hvd.broadcast_(values.conj(), size - 1)
    assert torch.equal(last, values)
    assert torch.equal(size * last.conj().imag, hvd.allreduce(values.conj().imag, op=hvd.Sum))


def case_buffers() -> None:
    """A model's buffers of any dtype are brought to the root's by broadcast_parameters; None is skipped."""
    rank = hvd.rank()
    for dtype in (torch.complex64, torch.int16, torch.uint16, torch.float8_e4m3fn):
        model = torch.nn.Linear(2, 2)
        model.register_buffer("table", torch.full((3,), rank + 1.0).to(dtype))
        hvd.broadcast_parameters(model.state_dict(), root_rank=0)
        assert torch.equal(torch.ones(3), model.get_buffer("table").real.float()), dtype
    hvd.broadcast_parameters([("none", None), ("also none", None)], root_rank=0)
    hvd.broadcast_parameters({"none": None, "own": torch.zeros(1)}, root_rank=0)
    hvd.broadcast_parameters([(None, torch.zeros(1)), (None, torch.zeros(2))], root_rank=0)


def case_mismatches() -> None:
    """Dtypes of one width are told apart, those that are only moved too."""
    if hvd.size() == 1:
        return
    for first, second in ((torch.int16, torch.uint16), (torch.complex64, torch.int64), (torch.bits8, torch.uint8)):
        mine = bits(0, first).view(first if hvd.rank() else second)
        expect_error(ValueError, "differ", lambda mine=mine: hvd.broadcast(mine, 0, name="same width"))  # type: ignore[misc]
        expect_error(ValueError, "differ", lambda mine=mine: hvd.allgather(mine, name="same width"))  # type: ignore[misc]


def case_averages() -> None:
    """Averages of integers are truncated towards zero, dense and sparse."""
    size, rank = hvd.size(), hvd.rank()
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64):
        own = torch.tensor([-1, 1, -5, 5], dtype=dtype) if rank == 0 else torch.zeros(4, dtype=dtype)
        expected = torch.tensor([int(-1 / size), int(1 / size), int(-5 / size), int(5 / size)], dtype=dtype)
        assert torch.equal(expected, hvd.allreduce(own)), dtype
        sparse = hvd.sparse_allreduce_async(own.to_sparse(), f"sparse.{dtype}", hvd.Average).wait()
        assert torch.equal(expected, sparse.to_dense()), dtype


def case_numbers_of_numpy() -> None:
    """A learning rate that numpy has computed is sent as the number that it is, and so are metrics."""
    rank = hvd.rank()
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    optimizer.param_groups[0]["lr"] = 0.1 * np.cos(0.3 + rank)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    lr = optimizer.param_groups[0]["lr"]
    assert lr == 0.1 * np.cos(0.3)
    assert isinstance(lr, np.float64)
    assert optimizer.param_groups[0]["foreach"] is None
    gathered = hvd.allgather_object({"accuracy": np.float32(rank + 0.5), "per_class": np.arange(3) + rank})
    assert [np.float32(other + 0.5) for other in range(hvd.size())] == [metric["accuracy"] for metric in gathered]
    assert all(np.array_equal(np.arange(3) + other, metric["per_class"]) for other, metric in enumerate(gathered))
    assert np.int64(7) == hvd.broadcast_object(np.int64(7 + rank), root_rank=0)


def refuse_what_is_in_flight() -> None:
    """Let the last rank's b be in flight until it has been refused: the others begin with theirs after a barrier."""
    if hvd.size() == 1:  # nothing is in flight for long: there is nobody to wait for
        return
    if hvd.rank() < hvd.size() - 1:
        hvd.broadcast_(torch.zeros(2), 0, name="parameter.a")
        hvd.barrier()
        hvd.broadcast_(torch.zeros(2), 0, name="parameter.b")
        return
    named = [("a", torch.zeros(2)), ("b", torch.zeros(2))]
    in_flight = hvd.broadcast_async_(torch.zeros(2), 0, name="parameter.b")
    expect_error(ValueError, "in flight", lambda: hvd.broadcast_parameters(named, 0))
    hvd.barrier()
    hvd.synchronize(in_flight)


def case_refused_midway() -> None:
    """A refused call has sent no tensor: made again without the offender, it works."""
    tensors = {"a": torch.zeros(2), "b": torch.zeros(2).to_sparse(), "c": torch.zeros(2)}
    expect_error(hvd.ConfigError, "broadcast_parameters of b", lambda: hvd.broadcast_parameters(tensors, 0))
    del tensors["b"]
    hvd.broadcast_parameters(tensors, root_rank=0)
    twice = [("a", torch.zeros(2)), ("b", torch.zeros(2)), ("a", torch.zeros(2))]
    expect_error(ValueError, "the names a twice", lambda: hvd.broadcast_parameters(twice, 0))
    refuse_what_is_in_flight()
    hvd.broadcast_parameters(twice[:2], root_rank=0)
    complex_slices = torch.ones(2, dtype=torch.complex64).to_sparse()
    expect_error(TypeError, "complex64", lambda: hvd.sparse_allreduce_async(complex_slices, "slices", hvd.Sum))
    hvd.sparse_allreduce_async(torch.ones(2).to_sparse(), "slices", hvd.Sum).wait()
    lists = [torch.zeros(2), torch.zeros(2, device="meta")]
    expect_error(hvd.ConfigError, "CPU memory", lambda: hvd.grouped_allgather(lists, name="lists"))
    hvd.grouped_allgather(lists[:1], name="lists")
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.1)
    optimizer.param_groups[0]["note"] = object()
    expect_error(ValueError, "builtins.object", lambda: hvd.broadcast_optimizer_state(optimizer, root_rank=0))
    optimizer.param_groups[0]["note"] = None
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)


def case_value_errors() -> None:
    """Raise errors that are ValueErrors or TypeErrors where Horovod's are."""
    size = hvd.size()
    expect_error(ValueError, "do not fit", lambda: hvd.alltoall(torch.zeros(3), splits=[1] * size + [9]))
    halves = torch.full((size,), 0.5)
    expect_error(TypeError, "whole numbers", lambda: hvd.alltoall(torch.zeros(size), splits=halves))
    expect_error(ValueError, "complex64", lambda: hvd.allreduce(torch.zeros(2, dtype=torch.complex64)))
    expect_error(TypeError, "torch.Tensor", lambda: hvd.allreduce([1.0]))  # type: ignore[arg-type]
    expect_error(ValueError, "state_dict", lambda: hvd.broadcast_parameters(7, root_rank=0))  # type: ignore[arg-type]
    assert hvd.join(device=0) in range(size)


torch.set_num_threads(1)
hvd.init()
for case_name, case in sorted(vars().items()):
    if case_name.startswith("case_") and callable(case):
        case()
        say(f"{case_name.removeprefix('case_')}: right")
hvd.shutdown()
