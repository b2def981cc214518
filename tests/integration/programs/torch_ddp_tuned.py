# SPDX-License-Identifier: Apache-2.0
"""Trains under DDP with the hook, in one bucket, until the tuner has finished. Argument: a file for gloo."""

import gc
import sys

import torch
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from tests.integration.plain_rank import say


def main() -> None:
    """Train; all ranks hear after the same step that the tuner has finished."""
    torch.set_num_threads(1)
    hvd.init()
    address = f"file://{sys.argv[1]}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=hvd.rank(), world_size=hvd.size())
    model = DistributedDataParallel(torch.nn.Linear(64, 64))
    model.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)
    while not hvd.tuning_finished():
        model(torch.ones(1, 64)).sum().backward()
    say(f"rank {hvd.rank()}: over, {hvd.tuning_finished()}")
    del model
    gc.collect()  # a model that outlives its group can abort the interpreter's exit
    torch.distributed.destroy_process_group()
    hvd.shutdown()


main()
