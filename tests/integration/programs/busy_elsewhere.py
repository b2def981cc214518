# SPDX-License-Identifier: Apache-2.0
"""Rank 1 does something else in the middle of training, until a file is there; rank 0 waits in its optimizer."""

import sys
from pathlib import Path

import torch

import ringtune.torch as hvd
from tests.waiting import wait_until

hvd.init()
model = torch.nn.Linear(4, 2)
optimizer = hvd.DistributedOptimizer(
    torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters()
)
for step in range(3):
    if (hvd.rank(), step) == (1, 1):
        wait_until(Path(sys.argv[1]).exists)
    optimizer.zero_grad()
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
hvd.shutdown()
