# SPDX-License-Identifier: Apache-2.0
"""Checks the torch front end: the shared cases, and its own. Arguments: cases, or all."""

import json
import math
import tempfile
from functools import partial
from pathlib import Path

import torch

import ringtune.torch as hvd
from tests.collectives.cases import bound
from tests.collectives.oracle import values_of
from tests.collectives.torch_front_end import TorchFrontEnd
from tests.integration.plain_rank import expect_error
from tests.integration.torch_cases import main


def case_group_that_fails() -> None:
    """A group fails or works as one."""
    if hvd.size() == 1:
        return
    sound, odd = torch.full((3,), float(hvd.rank())), torch.ones(2 + hvd.rank())
    handle = hvd.grouped_allreduce_async_([sound, odd], name="failing")
    expect_error(hvd.MismatchError, "failing.1", lambda: hvd.synchronize(handle))
    assert torch.equal(torch.full((3,), float(hvd.rank())), sound), "a member of a failed group was reduced"
    assert torch.equal(torch.ones(3), hvd.allreduce(torch.ones(3)))


def case_layouts() -> None:
    """Dense and strided tensors alike are combined by their elements, in place, and gathered by them."""
    rank, size = hvd.rank(), hvd.size()
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
    mine = torch.arange(6.0).reshape(2, 3) + rank
    everybodys = torch.cat([(torch.arange(6.0).reshape(2, 3) + other).t() for other in range(size)])
    assert torch.equal(everybodys, hvd.allgather(mine.t()))


def case_splits() -> None:
    """Splits may be a tensor, and the numbers of received rows are one."""
    splits = torch.arange(hvd.size())
    rows, counts = hvd.synchronize(hvd.alltoall_async(torch.full((int(splits.sum()), 2), 1.0), splits=splits))
    assert (hvd.size() * hvd.rank(), 2) == tuple(rows.shape)
    assert torch.equal(torch.full((hvd.size(),), hvd.rank(), dtype=torch.int32), counts)


def case_sparse() -> None:
    """Sparse tensors are combined by their elements, also where a rank has none; the handle may be called."""
    size, rank = hvd.size(), hvd.rank()
    for op, divisor in ((hvd.Sum, 1), (hvd.Average, size)):
        dense = [
            torch.from_numpy(values_of(other, "float32", (9, 2), 8)).float() * (other != 1) for other in range(size)
        ]
        handle = hvd.sparse_allreduce_async(dense[rank].to_sparse(1), name="embedding", op=op)
        result = handle() if op == hvd.Sum else hvd.synchronize(handle)
        assert result.is_sparse
        assert torch.allclose(torch.stack(dense).sum(0) / divisor, result.to_dense()), op
    expect_error(hvd.ConfigError, "COO", lambda: hvd.sparse_allreduce_async(torch.zeros(2), "x", hvd.Sum))
    expect_error(hvd.ConfigError, "Max", lambda: hvd.sparse_allreduce_async(torch.zeros(2).to_sparse(), "x", hvd.Max))


def case_handles() -> None:
    """Handles are polled until they are done, and are no numbers that could be mixed up."""
    handle = hvd.allreduce_async(torch.ones(4), op=hvd.Sum)
    while not hvd.poll(handle):
        pass
    assert torch.equal(torch.full((4,), float(hvd.size())), hvd.synchronize(handle))
    expect_error(hvd.ConfigError, "handle", lambda: hvd.poll(handle))
    expect_error(hvd.ConfigError, "handle 7", lambda: hvd.synchronize(7))  # type: ignore[arg-type]


def case_objects() -> None:
    """Every rank's plain data reaches every rank; other data is an error on all."""
    tensors = [torch.arange(hvd.rank()), torch.ones(2, dtype=torch.bfloat16)]
    own = {"rank": hvd.rank(), "tensors": tensors, "limit": math.inf}
    gathered = hvd.allgather_object(own)
    for rank, data in enumerate(gathered):
        assert (rank, math.inf) == (data["rank"], data["limit"])
        assert torch.equal(torch.arange(rank), data["tensors"][0])
        assert torch.equal(torch.ones(2, dtype=torch.bfloat16), data["tensors"][1])
        assert torch.bfloat16 is data["tensors"][1].dtype
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


def case_refusals_of_torch() -> None:
    """Refuse a torch tensor that the engine cannot take with a typed error, before anything is submitted."""
    refused = (
        torch.zeros(2, dtype=torch.complex64),
        torch.zeros(2, dtype=torch.float8_e5m2),
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        [1.0, 2.0],
    )
    for tensor in refused:
        expect_error(hvd.ConfigError, "", partial(hvd.allreduce, tensor))  # type: ignore[arg-type]
    expect_error(hvd.ConfigError, "", lambda: hvd.allreduce_(torch.zeros(1).expand(3)))
    expect_error(hvd.ConfigError, "does not support bool", lambda: hvd.allreduce(torch.ones(2).bool(), op=hvd.Adasum))
    expect_error(hvd.ConfigError, "op=9", lambda: hvd.allreduce(torch.zeros(1), op=9))  # type: ignore[arg-type]
    expect_error(hvd.ConfigError, "not both", lambda: hvd.allreduce(torch.zeros(1), average=True, op=hvd.Sum))


if __name__ == "__main__":
    main({**bound(TorchFrontEnd()), **globals()})
