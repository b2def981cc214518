# SPDX-License-Identifier: Apache-2.0
"""Rank 1 is killed while rank 0 waits for it in a collective; usage: loses_a_rank.py MEETING-FILE."""

import os
import signal
import sys

import torch
from torch import distributed as dist

from ringtune.errors import PeerLostError
from tests.integration.plain_rank import say

rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
dist.init_process_group("ringtune", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
try:
    dist.all_reduce(torch.ones(2))
except PeerLostError as error:
    say(f"lost: {error}")
