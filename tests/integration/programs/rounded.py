# SPDX-License-Identifier: Apache-2.0
"""Sums of values that bfloat16 cannot hold, of a gradient and a metric; rank 0 switches `wire`, unless told not to."""

import sys

import torch

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from ringtune.tuner import default_config
from ringtune.world.engine_config import engine_config
from tests.integration.plain_rank import say

VALUE = 257.0  # 9 bits
ROUNDS = 6


def main() -> None:
    """Train and sum by turns; print the distinct results and the engine's counts."""
    hvd.init()
    world = SESSION.require()
    weight = torch.nn.Parameter(torch.zeros(1000))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), named_parameters=[("weight", weight)])
    default = default_config(world.layout.ranks_per_host)
    gradients, metrics = set(), set()
    is_switched = sys.argv[1:] != ["unswitched"]
    for number in range(ROUNDS):
        wire = "bf16" if not is_switched else ("bf16", "exact")[number % 2]
        if world.rank == 0 and is_switched:
            world.engine.apply_config(engine_config(default.replace({"wire": wire})))
        hvd.barrier()
        optimizer.zero_grad()
        (weight * VALUE).sum().backward()
        optimizer.synchronize()
        assert weight.grad is not None
        gradients.add((wire, *weight.grad.unique().tolist()))
        metrics.add(float(hvd.allreduce(torch.tensor(VALUE), name="metric")))
    rounded = world.engine.counters()["rounded_allreduces"]
    say(f"gradients={sorted(gradients)} metrics={sorted(metrics)} rounded={rounded}")
    hvd.shutdown()


main()
