# SPDX-License-Identifier: Apache-2.0
"""Calls collectives as a program that generates text does, without an optimizer, until the tuner has decided.

Usage: generates.py MEETING-FILE.
"""

import os
import sys

import torch
from torch import distributed as dist

from ringtune.session.session import SESSION
from tests.integration.plain_rank import say

LOOK_TOKENS = 8
LAYERS = 3
WIDTH = 64


def main() -> None:
    """Generate, and print whether the ranks have one config."""
    torch.set_num_threads(1)
    rank, size = int(os.environ["RINGTUNE_RANK"]), int(os.environ["RINGTUNE_WORLD_SIZE"])
    dist.init_process_group("ringtune", init_method=f"file://{sys.argv[1]}", rank=rank, world_size=size)
    features, logits = torch.ones(WIDTH), torch.empty(2 * WIDTH)
    while not SESSION.is_tuning_finished:
        for _ in range(LOOK_TOKENS):
            for _ in range(LAYERS):
                dist.all_reduce(features, op=dist.ReduceOp.AVG)
            dist.all_gather_into_tensor(logits, features)
    engine = SESSION.require().engine
    gathered = [None] * size
    dist.all_gather_object(gathered, (engine.config().hash(), engine.counters()["steps"] > 0))
    assert gathered == [(gathered[0][0], True)] * size, gathered  # type: ignore[index]
    say("agreed")
    dist.destroy_process_group()


main()
