# SPDX-License-Identifier: Apache-2.0
"""A script that names Gloo in every way, reads torchrun's variables, and says which backend its groups have.

Usage: names_gloo.py [BACKEND], which is given to `init_process_group`; "mesh" makes none, so that the mesh does.
"""

import os
import sys

import torch
from torch import distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from tests.integration.plain_rank import say


def total_in(group: dist.ProcessGroup | None) -> str:
    """Add the ranks' numbers in a group, check the sum, and return the group's own name."""
    assert group is not None
    tensor = torch.full((2,), dist.get_rank() + 1.0)
    dist.all_reduce(tensor, group=group)
    assert tensor[0].item() == sum(rank + 1 for rank in dist.get_process_group_ranks(group)), tensor
    return group.name()


def main(backend: str | None) -> None:
    """Make groups in every way."""
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    assert 0 <= int(os.environ["LOCAL_RANK"]) < int(os.environ["LOCAL_WORLD_SIZE"])
    if backend != "mesh":
        dist.init_process_group(backend)
    mesh = init_device_mesh("cpu", (size,), mesh_dim_names=("replicas",))
    named = dist.new_group(list(range(size)), backend="gloo")
    alone = dist.new_group([0])
    groups = [dist.group.WORLD, mesh.get_group(), named, *([alone] if rank == 0 else [])]
    kinds = {total_in(group) for group in groups}
    dist.monitored_barrier(named)
    assert dist.is_gloo_available()
    assert "gloo" == dist.get_backend(named) == dist.Backend.GLOO
    say(f"rank {rank} of {size} calls it {dist.get_backend()} and has {' '.join(kinds)}")
    dist.destroy_process_group()


main(sys.argv[1] if len(sys.argv) > 1 else None)
