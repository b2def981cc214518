# SPDX-License-Identifier: Apache-2.0
"""Allreduces of random shapes, checked on every rank, while rank 0 switches the config every ten cycles.

The number of allreduces is the program's argument.
"""

import random
import sys

import numpy as np
import torch

import ringtune.torch as hvd
from ringtune._engine import Engine
from ringtune.session.session import SESSION
from ringtune.tuner import default_config, search_space
from ringtune.world.engine_config import engine_config
from tests.integration.plain_rank import say

BATCH = 8
CYCLES_PER_CONFIG = 10


def run_batch(first: int, shapes: random.Random) -> None:
    """Submit a batch at once and compare each result with the one that every rank expects."""
    rank, size = hvd.rank(), hvd.size()
    bases = [torch.arange(shapes.choice((0, 1, 7, 300, shapes.randrange(60_000)))) + first for _ in range(BATCH)]
    names = [f"t{shapes.randrange(2)}.{i}" for i in range(BATCH)]
    handles = [
        hvd.allreduce_async(base * (rank + 1), name=name, op=hvd.Sum) for base, name in zip(bases, names, strict=True)
    ]
    for base, handle in zip(bases, handles, strict=True):
        assert torch.equal(base * (size * (size + 1) // 2), hvd.synchronize(handle))


def main() -> None:
    """Run all batches; say how often the config was switched."""
    hvd.init()
    engine: Engine = SESSION.require().engine
    space = search_space({}, default_config())
    shapes, configs = random.Random(3), np.random.default_rng(5)
    next_switch = 0
    for first in range(0, int(sys.argv[1]), BATCH):
        if hvd.rank() == 0 and engine.counters()["cycles"] >= next_switch:
            engine.apply_config(engine_config(space.random(configs)))
            next_switch = engine.counters()["cycles"] + CYCLES_PER_CONFIG
        run_batch(first, shapes)
    say(f"all right, switches={engine.counters()['config_switches']}")
    hvd.shutdown()


main()
