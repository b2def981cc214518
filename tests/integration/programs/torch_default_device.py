# SPDX-License-Identifier: Apache-2.0
"""Runs every operation on tensors in CPU memory while torch's default device is another one.

Tensors that the front end makes for itself must name their device. The other device is `meta`, whose tensors hold no
data.
"""

import torch

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def main() -> None:
    """Train, gather and tell with all tensors in CPU memory."""
    hvd.init()
    size, cpu = hvd.size(), torch.device("cpu")
    table = torch.nn.Embedding(20, 4, sparse=True)
    model = torch.nn.Sequential(torch.nn.Linear(4, 256), hvd.SyncBatchNorm(256), torch.nn.Linear(256, 256))
    words, own = torch.tensor([1, hvd.rank()]), torch.ones(2 * size, 2)
    torch.set_default_device("meta")
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    sparse = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters()), table.named_parameters())
    dense = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), fused=True), model.named_parameters())
    for step in range(3):
        for optimizer in (sparse, dense):
            optimizer.zero_grad()
        if step != 1:
            model(table(words)).sum().backward()
        elif hvd.rank() == 0:  # the others have no gradient in this step
            table(words).sum().backward()
        for optimizer in (sparse, dense):
            optimizer.step()
    hvd.broadcast_optimizer_state(dense, root_rank=0)
    results = [hvd.allreduce(own), hvd.allgather(own), hvd.reducescatter(own), hvd.broadcast(own, 0)]
    results += hvd.alltoall(own, splits=[2] * size)
    results.append(hvd.synchronize(hvd.sparse_allreduce_async(own.to_sparse(1), "sparse", hvd.Average)))
    results += hvd.allgather_object({"tensor": own}, name="told")[-1].values()
    results += hvd.broadcast_object({"tensor": own, "text": "x"}, 0).values()
    assert all(result.device == cpu for result in results if isinstance(result, torch.Tensor)), results
    assert all(parameter.device == cpu for parameter in (*model.parameters(), *table.parameters()))
    hvd.join()
    say("right")
    hvd.shutdown()


main()
