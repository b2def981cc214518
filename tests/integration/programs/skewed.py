# SPDX-License-Identifier: Apache-2.0
"""Allreduces of one set of values, while rank 0 switches `skew` and has the links measured: all have equal bits."""

import hashlib

import numpy as np

import ringtune.arrays as hvd
from ringtune.session.session import SESSION
from ringtune.tuner import default_config
from ringtune.world.engine_config import engine_config
from tests.integration.plain_rank import say

ELEMENTS = 300_007
ROUNDS = 8
TENSORS = 3


def main() -> None:
    """Reduce; print how many results differ, and the engine's counts."""
    hvd.init()
    world = SESSION.require()
    values = np.random.default_rng(world.rank).standard_normal((TENSORS, ELEMENTS), np.float32)
    even = default_config(world.layout.ranks_per_host)
    results = set()
    for number in range(ROUNDS):
        handles = [hvd.allreduce_async(value, name=f"t{tensor}") for tensor, value in enumerate(values)]
        if world.rank == 0:
            if number % 4 == 1:
                world.engine.measure_host_rates()
            world.engine.apply_config(engine_config(even.replace({"skew": number % 2 == 1})))
        results.add(hashlib.sha256(b"".join(handle.wait().tobytes() for handle in handles)).hexdigest())
    skewed = world.engine.counters()["skewed_allreduces"]
    _, measurements, is_uneven = world.engine.host_rates()
    say(f"results={len(results)} measured={measurements} uneven={is_uneven} skewed={skewed > 0}")
    hvd.shutdown()


main()
