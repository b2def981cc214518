# SPDX-License-Identifier: Apache-2.0
"""A few operations of each kind, for a slow tool around it. Arguments: device, file for the outcome."""

import json
import sys
from pathlib import Path

import torch

import ringtune.torch as hvd


def main() -> None:
    """Reduce, gather and move, and compare with the right results."""
    kind, path = sys.argv[1:]
    hvd.init()
    device, size, rank = torch.device(kind), hvd.size(), hvd.rank()
    for number in range(3):
        own = torch.full((4099,), rank + 1.0, device=device)
        handles = [hvd.allreduce_async(own, name=f"away.{number}.{part}", op=hvd.Sum) for part in range(8)]
        results = [hvd.synchronize(handle) for handle in handles]
        assert all(bool((result == sum(range(1, size + 1))).all()) for result in results)
        hvd.allreduce_(own[::2], op=hvd.Max)
        assert bool((own[::2] == size).all())
        gathered = hvd.allgather(torch.full((3 + rank,), 5.0, device=device))
        assert bool((gathered == 5.0).all())
        assert bool((hvd.broadcast(torch.full((5,), rank * 1.0, device=device), 0) == 0).all())
        assert bool((hvd.reducescatter(torch.ones(7, device=device), op=hvd.Sum) == size).all())
    model = torch.nn.Linear(8, 4).to(device)
    inner = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(inner, named_parameters=model.named_parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 8, device=device)).sum().backward()
        optimizer.step()
    hvd.shutdown()
    outcome = json.dumps({"check": "short", "passed": True})
    Path(f"{path}.{rank}.jsonl").write_text(f"{outcome}\n", encoding="utf-8")


main()
