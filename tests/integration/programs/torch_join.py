# SPDX-License-Identifier: Apache-2.0
"""Ranks with different numbers of batches: a rank without any left joins, and counts as zeros until all have joined."""

from collections.abc import Callable

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say

torch.set_num_threads(1)
hvd.init()
rank, size = hvd.rank(), hvd.size()
for repeat in range(2):
    for batch in range(2 + 3 * rank):
        taking_part = [other for other in range(size) if batch < 2 + 3 * other]
        total = hvd.allreduce(torch.full((5,), rank + 1.0), name=f"batch.{batch}", op=hvd.Sum)
        assert total.tolist() == [float(sum(other + 1 for other in taking_part))] * 5, (batch, total)
        mean = hvd.allreduce(torch.full((5,), 6.0), name=f"mean.{batch}")
        assert torch.allclose(torch.full((5,), 6.0 * len(taking_part) / size), mean), (batch, mean)
        both = hvd.grouped_allreduce([torch.ones(3), torch.ones(2)], name=f"group.{batch}", op=hvd.Sum)
        assert [tensor[0].item() for tensor in both] == [float(len(taking_part))] * 2
    last = hvd.join()
    assert last == size - 1, last
    everybody = hvd.allgather(torch.tensor([last]), name=f"last.{repeat}")
    assert everybody.tolist() == [size - 1] * size
if size > 1:
    if rank == 0:
        hvd.join()
    else:
        calls: tuple[Callable[[], object], ...] = (
            lambda: hvd.allreduce(torch.ones(2), name="least", op=hvd.Min),
            lambda: hvd.broadcast(torch.ones(2), 1, name="told"),
            lambda: hvd.allgather(torch.ones(2), name="gathered"),
        )
        for call in calls:
            try:
                call()
            except hvd.EngineError:
                continue
            raise AssertionError("an operation that cannot do without a rank went on without it")
        hvd.join()
hvd.shutdown()
say("joined")
