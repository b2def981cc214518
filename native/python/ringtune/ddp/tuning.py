# SPDX-License-Identifier: Apache-2.0
"""`autotune(model)` for a model under DistributedDataParallel."""

import os
from typing import final

from torch.nn.parallel import DistributedDataParallel

from ringtune.errors import ConfigError
from ringtune.tuning.model.call import Arguments, AutotuneCall, ModelTuner
from ringtune.tuning.model.live_model import LiveModel

from .model import DdpModel


def autotune(
    model: DistributedDataParallel,
    *,
    log: str | os.PathLike[str] | None = None,
    max_samples: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    warmup_steps: int | None = None,
    steps_per_sample: int | None = None,
    seed: int | None = None,
    model_name: str | None = None,
    accept_hook: bool = False,
) -> "DdpTuner":
    """Tune `bucket_cap_mb` and the size of the first bucket while the model trains.

    Call it on every rank of the model's process group at the same point, before or between training steps; with
    several models in the same order everywhere. Rank 0's settings hold. Except for `accept_hook`, each argument stands
    for a variable of the environment, `log` for `AUTOTUNE_LOG`, and goes before it. Without `AUTOTUNE` it is on.

    Args:
        model: Wrapped, as it will be trained.
        log: Path of the tuning log, which is appended to.
        max_samples: Samples that the search may take.
        max_steps: Steps within which the tuner decides.
        max_seconds: Seconds within which the tuner decides. Without any of the three 120, or as long as 200 steps take.
        warmup_steps: Steps before the first window.
        steps_per_sample: Steps in a window.
        seed: Seed of everything random in the tuner.
        model_name: A name for people.
        accept_hook: Whether the model's communication hook, though it has a state, keeps no state that depends on
            the size or number of a bucket. PowerSGD's does.

    Returns:
        The tuner; it is off where the model cannot be tuned.

    Raises:
        ConfigError: If `model` is not wrapped, or a value is not allowed.
    """
    if not isinstance(model, DistributedDataParallel):
        raise ConfigError(f"autotune() got a {type(model).__name__}; wrap it in DistributedDataParallel first")
    arguments = Arguments(
        log=log,
        max_samples=max_samples,
        max_steps=max_steps,
        max_seconds=max_seconds,
        warmup_steps=warmup_steps,
        steps_per_sample=steps_per_sample,
        seed=seed,
        model_name=model_name,
    )
    live: LiveModel = DdpModel(model, accept_hook=accept_hook)
    parts = AutotuneCall.of(live, arguments).start()
    return DdpTuner(live, parts.follower, parts.thread)


@final
class DdpTuner(ModelTuner):
    """The tuner of one DDP model on one rank; its configs have `bucket_cap_mb` and `first_bucket_bytes`."""
