# SPDX-License-Identifier: Apache-2.0
"""Adds the ranks' numbers by torch.distributed, and says where each rank is; usage: torch_sums.py BACKEND."""

import socket
import sys

import torch
from torch import distributed as dist

dist.init_process_group(sys.argv[1])
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
members = dist.new_group(list(range(dist.get_world_size())))
dist.barrier(members)
place = f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}"
sys.stdout.write(f"{place}: {total.item()} by {members.name() if members else None}\n")
dist.destroy_process_group()
