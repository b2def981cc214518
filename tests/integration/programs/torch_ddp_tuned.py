# SPDX-License-Identifier: Apache-2.0
"""Trains under DDP with the hook, in one bucket, until the tuner has finished. Argument: a file for gloo."""

import gc
import sys
import time

import torch
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from tests.integration.plain_rank import say

LIMIT_S = 60.0


def main() -> None:
    """Train; rank 0 knows when it is over, and all stop together."""
    torch.set_num_threads(1)
    hvd.init()
    address = f"file://{sys.argv[1]}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=hvd.rank(), world_size=hvd.size())
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    model.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)
    end_s = time.monotonic() + LIMIT_S
    is_over = False
    while not is_over:
        model(torch.ones(1, 64)).sum().backward()
        is_over = hvd.broadcast_object(hvd.tuning_finished() or time.monotonic() > end_s, 0)
    say(f"rank {hvd.rank()}: over, {hvd.tuning_finished()}")
    del model
    gc.collect()  # a model that outlives its group can abort the interpreter's exit
    torch.distributed.destroy_process_group()
    hvd.shutdown()


main()
