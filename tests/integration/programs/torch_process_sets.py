# SPDX-License-Identifier: Apache-2.0
"""Runs collectives in process sets, made at init and later, at the same time and beside the global one."""

from functools import partial

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import expect_refusal, say


def check_collectives(process_set: hvd.ProcessSet, rank: int) -> None:
    """Every operation over the ranks of one set, from a rank inside."""
    ranks = process_set.ranks
    assert ranks is not None
    own, place, size = torch.tensor([float(rank)]), ranks.index(rank), len(ranks)
    assert (place, size, True) == (process_set.rank(), process_set.size(), process_set.included())
    assert hvd.allreduce(own, op=hvd.Sum, process_set=process_set).item() == sum(ranks)
    (grouped,) = hvd.grouped_allreduce([own], op=hvd.Max, process_set=process_set)
    assert grouped.item() == max(ranks)
    assert hvd.allgather(own, process_set=process_set).tolist() == [float(other) for other in ranks]
    for root in ranks:
        assert hvd.broadcast(own, root, process_set=process_set).item() == root
    scattered = hvd.reducescatter(own.repeat(size), op=hvd.Sum, process_set=process_set)
    assert scattered.tolist() == [float(sum(ranks))]
    received = hvd.alltoall(own.repeat(size), process_set=process_set)
    assert isinstance(received, torch.Tensor)
    assert received.tolist() == [float(other) for other in ranks]
    assert hvd.broadcast_object({"rank": rank}, ranks[-1], process_set=process_set) == {"rank": ranks[-1]}
    assert hvd.allgather_object(rank, process_set=process_set) == ranks
    sparse = hvd.sparse_allreduce_async(own.to_sparse(), "sparse", hvd.Average, process_set)
    assert hvd.synchronize(sparse).to_dense().item() == sum(ranks) / size
    tensor = torch.ones(2, requires_grad=True)
    hvd.allreduce(tensor, op=hvd.Sum, process_set=process_set).sum().backward()
    assert tensor.grad is not None
    assert tensor.grad.tolist() == [float(size)] * 2
    hvd.barrier(process_set)


def main() -> None:
    """Check sets made at init, sets made later, and what must be refused."""
    torch.set_num_threads(1)
    expect_refusal("init()", lambda: hvd.allreduce(torch.zeros(1)))
    first = hvd.ProcessSet([0])
    hvd.init(process_sets=[first])
    rank, size = hvd.rank(), hvd.size()
    even = hvd.add_process_set(hvd.ProcessSet(range(0, size, 2))) if size > 2 else first
    rest = hvd.add_process_set(list(range(1, size)))
    check_collectives(hvd.global_process_set, rank)
    for process_set in (first, even, rest):
        if process_set.included():
            check_collectives(process_set, rank)
        else:
            expect_refusal("not in process set", partial(hvd.allreduce, torch.zeros(1), process_set=process_set))
    if rest.included():
        expect_refusal("rank 0 is not in process set", partial(hvd.broadcast, torch.zeros(1), 0, process_set=rest))
    handles = [
        hvd.allreduce_async(torch.ones(1000), op=hvd.Sum, process_set=process_set)
        for process_set in (rest, even, first, hvd.global_process_set)
        if process_set.included()
    ]
    sums = {hvd.synchronize(handle)[0].item() for handle in reversed(handles)}
    assert float(size) in sums
    assert hvd.remove_process_set(rest)
    expect_refusal("not part of the running job", lambda: hvd.allreduce(torch.zeros(1), process_set=rest))
    assert not hvd.remove_process_set(hvd.global_process_set)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == size
    hvd.shutdown()
    say("sets are right")


main()
