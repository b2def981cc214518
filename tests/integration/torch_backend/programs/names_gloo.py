# SPDX-License-Identifier: Apache-2.0
"""A script that names Gloo in every way, reads torchrun's variables, and says which backend its groups have.

Usage: names_gloo.py [BACKEND], which is given to `init_process_group`; without it none is named.
"""

import os
import sys

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.integration.plain_rank import say

rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
assert 0 <= int(os.environ["LOCAL_RANK"]) < int(os.environ["LOCAL_WORLD_SIZE"])
backend = sys.argv[1] if len(sys.argv) > 1 else None
if backend != "mesh":
    dist.init_process_group(backend)
mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("replicas",))
named = dist.new_group(list(range(size)), backend="gloo")
alone = dist.new_group([0])
groups = [dist.group.WORLD, mesh.get_group(), named, *([alone] if rank == 0 else [])]
for group in groups:
    tensor = torch.full((2,), rank + 1.0)
    dist.all_reduce(tensor, group=group)
    assert tensor[0].item() == sum(peer + 1 for peer in dist.get_process_group_ranks(group)), tensor
dist.monitored_barrier(named)
assert dist.is_gloo_available()
assert "gloo" == dist.get_backend(named) == dist.Backend.GLOO
kinds = {group.name() for group in groups if group is not None}
say(f"rank {rank} of {size} calls it {dist.get_backend()} and has {' '.join(kinds)}")
dist.destroy_process_group()
