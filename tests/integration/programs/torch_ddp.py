# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel over gloo, its buckets through the hook, against the same without it. Argument: a file."""

import gc
import sys
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

import ringtune.torch as hvd
from ringtune.session.session import SESSION
from tests.integration.plain_rank import say

STEPS = 5
ROWS = 4


def make_model() -> torch.nn.Module:
    """Return a network of several small buckets, with equal weights on all ranks."""
    torch.manual_seed(11)
    return torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(6)))


def wrapped(*, has_hook: bool, **options: Any) -> Any:
    """Return the model under DDP, with or without our hook; several buckets after the first step."""
    model = DistributedDataParallel(make_model(), bucket_cap_mb=0.04, **options)
    if has_hook:
        model.register_comm_hook(hvd.DdpState(), hvd.ddp_hook)
    return model


def train(model: Any, optimizer: torch.optim.Optimizer, accumulate: int = 1) -> None:
    """Train some steps on this rank's rows; all but the last backward of a step are not synchronized."""
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(accumulate):
            generator = torch.Generator().manual_seed(100 * step + 10 * number + hvd.rank())
            inputs = torch.randn(ROWS, 64, generator=generator)
            model.require_backward_grad_sync = number == accumulate - 1
            model(inputs).square().mean().backward()
        optimizer.step()


def check_same(**options: Any) -> None:
    """Both ways of averaging train alike."""
    accumulate = options.pop("accumulate", 1)
    with_hook, without = wrapped(has_hook=True, **options), wrapped(has_hook=False, **options)
    for model in (with_hook, without):
        train(model, torch.optim.SGD(model.parameters(), lr=0.5), accumulate)
    for mine, theirs in zip(with_hook.parameters(), without.parameters(), strict=True):
        assert torch.allclose(theirs, mine, rtol=1e-5, atol=1e-7)


def main() -> None:
    """Compare; then see that buckets are operations, steps are marked, and errors are typed."""
    torch.set_num_threads(1)
    hvd.init()
    address = f"file://{sys.argv[1]}"
    torch.distributed.init_process_group("gloo", init_method=address, rank=hvd.rank(), world_size=hvd.size())
    check_same()
    world = SESSION.require()
    counters = world.engine.counters()
    assert counters["steps"] == STEPS, counters
    buckets = world.gradient_set.bucket_bytes
    assert len(buckets) > 1, buckets
    parameters = 6 * (64 * 64 + 64)
    assert sum(buckets) == 4 * parameters, buckets
    assert counters["tensors"] == 1 + len(buckets) * (STEPS - 1), counters  # one bucket before they are rebuilt
    assert sum(world.gradient_set.counts().values()) == 12
    check_same(gradient_as_bucket_view=True)
    check_same(find_unused_parameters=True)
    check_same(accumulate=3)
    broken: Any = DistributedDataParallel(torch.nn.Linear(2, 2))
    broken.register_comm_hook(None, hvd.ddp_hook)
    try:
        broken(torch.ones(1, 2)).sum().backward()
    except hvd.ConfigError as error:
        text = str(error)
    else:
        raise AssertionError("a hook without its state went on")
    assert "DdpState" in text, text
    del broken
    gc.collect()  # a model that outlives its group can abort the interpreter's exit
    torch.distributed.destroy_process_group()
    hvd.shutdown()
    say("buckets are right")


main()
