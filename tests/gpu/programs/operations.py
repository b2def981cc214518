# SPDX-License-Identifier: Apache-2.0
"""Every operation, dtype and odd size on a device, with the bits that the engine computes in CPU memory."""

import torch

import ringtune.torch as hvd
from tests.collectives.same_bits import CASES, FLOATS, Brought, compare, values_of
from tests.gpu.checks import Bench, checks_of, main

LARGE = ((1 << 20) + 3,)


def check_large(bench: Bench) -> dict[str, int]:
    """Tensors larger than the fusion buffer's chunks, with odd ends, at odd addresses."""
    for dtype in FLOATS:
        whole = values_of(dtype, LARGE, 1)
        compare(bench, f"large {dtype}", [whole], lambda tensors: hvd.allreduce_(tensors[0]))
        compare(bench, f"large {dtype}, odd address", [whole], lambda tensors: hvd.allreduce_(tensors[0][1:]))
    many = values_of(torch.float32, (10_007 + hvd.rank(), 5), 9)
    compare(bench, "large allgather", [many], lambda tensors: hvd.allgather(tensors[0]))
    huge = values_of(torch.float32, ((1 << 24) + 1,), 2)
    compare(bench, "64 MiB and 4 bytes", [huge], lambda tensors: hvd.allreduce(tensors[0], op=hvd.Sum))
    return {"bytes": huge.nbytes}


def check_splits_on_the_device(bench: Bench) -> None:
    """The numbers of received rows are where the splits are."""
    splits = torch.tensor([1] * hvd.size(), device=bench.device)
    rows, received = hvd.alltoall(torch.ones(hvd.size(), 2, device=bench.device), splits=splits)
    assert (bench.device, bench.device) == (rows.device, received.device)
    assert [1] * hvd.size() == received.tolist()


def check_sparse(bench: Bench) -> None:
    """Sparse tensors are combined by their elements."""
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        dense = values_of(dtype, (33, 4), 8, is_finite=True)
        dense[hvd.rank() :: 3] = 0

        def call(tensors: Brought) -> Brought:
            handle = hvd.sparse_allreduce_async(tensors[0].to_sparse(1), "table", hvd.Average)
            result = hvd.synchronize(handle)
            return [result.indices(), result.values()]

        compare(bench, ("sparse", dtype), [dense], call)


def check_objects(bench: Bench) -> None:
    """Tensors in plain data arrive on the device, those in CPU memory there."""
    own = {"moment": torch.full((3,), hvd.rank() + 0.5, device=bench.device), "step": torch.tensor(3.0, device="cpu")}
    for received in (*hvd.allgather_object(own), hvd.broadcast_object(own, hvd.size() - 1)):
        assert (bench.device, bench.reference) == (received["moment"].device, received["step"].device)
    assert hvd.size() - 0.5 == received["moment"][0].item()


if __name__ == "__main__":
    main({**{case.__name__: case for case in CASES}, **checks_of(globals())})
