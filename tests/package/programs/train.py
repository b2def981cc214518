# SPDX-License-Identifier: Apache-2.0
"""A job: trains a small model on ranks whose data differ, and compares its parameters with rank 0's.

Usage: train.py SECONDS: how long at most; it ends earlier once the tuner has.
"""

import sys
import time

import torch

import ringtune.torch as hvd

hvd.init()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.01), model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
data = torch.Generator().manual_seed(hvd.rank())
deadline_s = time.monotonic() + float(sys.argv[1])
is_over = False
while not is_over:
    optimizer.zero_grad()
    model(torch.randn(8, 64, generator=data)).square().mean().backward()
    optimizer.step()
    late = torch.tensor(float(time.monotonic() > deadline_s))
    is_over = bool(hvd.allreduce(late, op=hvd.Max, name="late")) or hvd.tuning_finished()
own = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
assert torch.equal(own, hvd.broadcast(own, root_rank=0)), "ranks differ"
sys.stdout.write(f"rank {hvd.rank()} of {hvd.size()} trained with {hvd.__file__}\n")
