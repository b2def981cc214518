# SPDX-License-Identifier: Apache-2.0
"""A script that asks its launcher for everything, and reads data by workers that are forked from a rank."""

import torch
from torch import distributed as dist
from torch.utils.data import DataLoader, TensorDataset

from tests.integration.plain_rank import say

dist.init_process_group("ringtune")
group = dist.new_group([0, 1])
for rows in DataLoader(TensorDataset(torch.arange(8)), num_workers=2, batch_size=4):
    assert 4 == len(rows[0])
tensor = torch.full((1,), dist.get_rank() + 1.0)
dist.all_reduce(tensor, group=group)
dist.barrier()
say(f"sum {tensor.item()}")
dist.destroy_process_group()
