# SPDX-License-Identifier: Apache-2.0
"""Runs collectives in process sets, made at init and later, at the same time and beside the global one."""

from functools import partial

import torch

import ringtune.torch as hvd
from tests.collectives.cases import bound
from tests.collectives.torch_front_end import TorchFrontEnd
from tests.integration.plain_rank import expect_refusal, say


def check_collectives(process_set: hvd.ProcessSet, rank: int) -> None:
    """Every operation over the ranks of one set, from a rank inside."""
    ranks = process_set.ranks
    assert ranks is not None
    own, place, size = torch.tensor([float(rank)]), ranks.index(rank), len(ranks)
    assert (place, size, True) == (process_set.rank(), process_set.size(), process_set.included())
    for case in bound(TorchFrontEnd(process_set, is_brief=True)).values():
        case()
    assert hvd.broadcast_object({"rank": rank}, ranks[-1], process_set=process_set) == {"rank": ranks[-1]}
    assert hvd.allgather_object(rank, process_set=process_set) == ranks
    sparse = hvd.sparse_allreduce_async(own.to_sparse(), "sparse", hvd.Average, process_set)
    assert hvd.synchronize(sparse).to_dense().item() == sum(ranks) / size
    hvd.barrier(process_set)


def main() -> None:
    """Check sets made at init, sets made later, and refusals."""
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
