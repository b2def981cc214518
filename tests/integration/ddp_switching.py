# SPDX-License-Identifier: Apache-2.0
"""Changes of a DDP model's buckets without a tuner, and training with them compared to training without."""

from collections.abc import Callable
from typing import Any

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ringtune.ddp.buckets import BucketSizes
from ringtune.ddp.model import DdpModel
from ringtune.ddp.reducers import bucket_sizes
from ringtune.tuning.model.control import ControlGroup
from ringtune.tuning.model.exchange import Exchange
from ringtune.tuning.model.follower import Follower, FollowerLinks
from ringtune.tuning.model.step_clock import HostSteps
from tests.integration.ddp_training import train, wrapped
from tests.integration.plain_rank import say

Freeze = Callable[[Any, int], object]
LIMIT_S = 240.0
SIZES = [BucketSizes(9_000, 9_000), BucketSizes(1_000_000, 4_000), BucketSizes(100, 100), BucketSizes(20_000, 5_000)]


def follow(model: DistributedDataParallel) -> tuple[Follower, Exchange]:
    """Follow a model without a tuner; the caller makes the wishes."""
    rank, exchange = dist.get_rank(), Exchange(bucket_sizes(model).words())
    links = FollowerLinks(exchange if rank == 0 else None, HostSteps(), lambda text: say(f"warned {rank}: {text}"))
    mine = Follower(ControlGroup(model.process_group, LIMIT_S), DdpModel(model), links)
    mine.follow()
    return mine, exchange


def bucket_bytes(model: DistributedDataParallel) -> list[int]:
    """Return DDP's own account of the sizes of its buckets."""
    return [int(size) for size in str(model._get_ddp_logging_data()["rebuilt_bucket_sizes"]).split(",")]


def order(model: DistributedDataParallel) -> str:
    """Return DDP's own account of the order of the parameters in its buckets."""
    data = model._get_ddp_logging_data()
    return str(data.get("rebuilt_per_bucket_param_indices", "")).replace(",", "")


def compare(name: str, *, hook: Any = None, steps: int = 24, freeze: Freeze = lambda *_: None, **options: Any) -> None:
    """Train twice, with and without changes of the buckets: gradients and weights agree to the last bit.

    With two ranks each sum has two terms, so that no bucket can change the order of an addition.

    Args:
        name: Name in messages.
        hook: Communication hook.
        steps: Steps to train.
        freeze: Freezes parameters of the wrapped model before a step, or has them trained again.
        options: Those of DDP, and of `train`.
    """
    ways = {key: options.pop(key) for key in ("passes", "begins_with", "uses") if key in options}
    plain, changed = wrapped(**options), wrapped(**options)
    if hook is not None:
        for model in (plain, changed):
            model.register_comm_hook(None, hook)
    expected = train(plain, steps, before=lambda step: freeze(plain.module, step), **ways)
    mine, exchange = follow(changed)
    found: set[int] = set()

    def before(step: int) -> None:
        found.add(mine.words[0])
        if step % 5 == 3:
            exchange.ask(SIZES[step // 5 % len(SIZES)].words())
        freeze(changed.module, step)

    actual = train(changed, steps, before=before, **ways)
    assert mine._step == steps - 1, (name, mine._step)  # the last one ends with the next forward pass
    assert len(found) == 5, (name, found)
    assert len(expected) == len(actual), name
    assert all(torch.equal(one, other) for one, other in zip(expected, actual, strict=True)), name
    pairs = zip(plain.parameters(), changed.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs), name
    if not options.get("find_unused_parameters"):
        assert order(plain) == order(changed), (name, order(plain), order(changed))
        assert (
            changed._get_ddp_logging_data()["rebuilt_bucket_sizes"]
            != plain._get_ddp_logging_data()["rebuilt_bucket_sizes"]
        ), name
