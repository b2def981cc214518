# SPDX-License-Identifier: Apache-2.0
"""Initialises torch's process group first, and joins the world through its store.

Usage: process_group.py [without METHOD]: as in a PyTorch whose `ProcessGroup` has no such method.
"""

import sys

import torch
import torch.distributed

import ringtune.torch as hvd
from tests.integration.plain_rank import say

torch.set_num_threads(1)
if sys.argv[1:2] == ["without"]:
    delattr(torch.distributed.ProcessGroup, sys.argv[2])
torch.distributed.init_process_group("gloo")
hvd.init()
total = hvd.allreduce(torch.tensor([hvd.rank() + 1.0]), op=hvd.Sum)
assert hvd.rank() == torch.distributed.get_rank()
hvd.shutdown()
torch.distributed.destroy_process_group()
say(f"sum {total.item()}")
