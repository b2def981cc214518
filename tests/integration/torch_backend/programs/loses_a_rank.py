# SPDX-License-Identifier: Apache-2.0
"""Rank 1 is killed while the others wait for it; usage: loses_a_rank.py MEETING-FILE FORM CALL."""

import os
import signal
import sys
import time
from collections.abc import Callable

import torch
from torch import distributed as dist

from ringtune.errors import PeerLostError
from tests.integration.plain_rank import say
from tests.integration.torch_backend.forms import choose_form

CALLS: dict[str, Callable[[], object]] = {
    "all_reduce": lambda: dist.all_reduce(torch.ones(2)),
    "all_gather": lambda: dist.all_gather([torch.empty(2) for _ in range(dist.get_world_size())], torch.ones(2)),
    "all_to_all": lambda: dist.all_to_all_single(torch.empty(12), torch.ones(12)),
    "barrier": dist.barrier,
    "broadcast": lambda: dist.broadcast(torch.ones(2), 1),
    "gather": lambda: dist.gather(torch.ones(2), None, dst=1),
    "reduce_scatter": lambda: dist.reduce_scatter_tensor(torch.empty(2), torch.ones(2 * dist.get_world_size())),
    "recv": lambda: dist.recv(torch.empty(2), 1),
}
rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
choose_form(sys.argv[2], rank)
dist.init_process_group("ringtune", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
if rank == 1:
    for peer in set(range(size)) - {1}:
        dist.send(torch.ones(2), peer)
else:
    dist.recv(torch.empty(2), 1)
dist.barrier()
if rank == 1:
    os.kill(os.getpid(), signal.SIGKILL)
begin_s = time.monotonic()
try:
    CALLS[sys.argv[3]]()
except PeerLostError as error:
    say(f"lost after {time.monotonic() - begin_s:.1f} s: {error}")
