# SPDX-License-Identifier: Apache-2.0
"""A script that asks its launcher for everything, and reads data by workers that are forked from a rank."""

import torch
from torch import distributed as dist
from torch.utils.data import DataLoader

from tests.integration.plain_rank import say

dist.init_process_group("ringtune")
group = dist.new_group([0, 1])
data: list[int] = list(range(8))
for rows in DataLoader(data, num_workers=2, batch_size=4):  # type: ignore[arg-type]
    assert 4 == len(rows)
tensor = torch.full((1,), dist.get_rank() + 1.0)
dist.all_reduce(tensor, group=group)
dist.barrier()
say(f"sum {tensor.item()}")
dist.destroy_process_group()
