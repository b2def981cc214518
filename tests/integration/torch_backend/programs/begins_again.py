# SPDX-License-Identifier: Apache-2.0
"""Makes one default group after the other by one store; usage: begins_again.py MEETING-FILE FORM."""

import os
import sys

import torch
from torch import distributed as dist

from tests.integration.plain_rank import say
from tests.integration.torch_backend.forms import choose_form

rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
choose_form(sys.argv[2], rank)
store = dist.FileStore(sys.argv[1], size)  # type: ignore[attr-defined]
for _ in range(3):
    dist.init_process_group("ringtune", store=store, rank=rank, world_size=size)
    tensor = torch.full((1,), rank + 1.0)
    dist.all_reduce(tensor)
    say(f"sum {tensor.item()}")
    dist.destroy_process_group()
