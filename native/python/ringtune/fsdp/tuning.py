# SPDX-License-Identifier: Apache-2.0
"""`autotune(model)` for a model under FSDP2, and `apply(model, …)`, which brings a result in force without a tuner."""

import os
from typing import final

import torch
from torch import distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel
from torch.nn.parallel import DistributedDataParallel

from ringtune.errors import ConfigError
from ringtune.tuning.model.call import Arguments, AutotuneCall, ModelTuner

from .model import FsdpModel
from .passes import Passes, passes_of
from .settings import MOST_PREFETCH, FsdpSettings
from .units import has_fsdp2, mesh_of, units_of, whole_mesh


def autotune(
    model: torch.nn.Module,
    *,
    memory_limit_bytes: int | None = None,
    log: str | os.PathLike[str] | None = None,
    max_samples: int | None = None,
    max_steps: int | None = None,
    max_seconds: float | None = None,
    warmup_steps: int | None = None,
    steps_per_sample: int | None = None,
    seed: int | None = None,
    model_name: str | None = None,
) -> "FsdpTuner":
    """Tune `reshard_after_forward` and the prefetch depths of a model under FSDP2 while it trains.

    Call it on every rank that trains the model at the same point, after `fully_shard` and before or between training
    steps; with several models in the same order everywhere. Rank 0's settings hold. Except for `memory_limit_bytes`,
    each argument stands for a variable of the environment, `log` for `AUTOTUNE_LOG`, and goes before it. Without
    `AUTOTUNE` it is on.

    A config is tried only if its parameters fit into the limit beside the model's peak so far. One whose peak is
    above the limit nevertheless is left at once, by all ranks at the same step, and is not tried again.

    Args:
        model: The model, `fully_shard` called on it or on modules inside.
        memory_limit_bytes: Limit of each rank's peak: on a GPU of `torch.cuda.max_memory_allocated`, in CPU memory of
            the process's resident memory. None takes the device's memory beside other processes, less a tenth.
        log: Path of the tuning log, which is appended to.
        max_samples: Samples that the search may take.
        max_steps: Steps within which the tuner decides.
        max_seconds: Seconds within which the tuner decides. Without any of the three 120, or as long as 200 steps take.
        warmup_steps: Steps before the first window.
        steps_per_sample: Steps in a window.
        seed: Seed of everything random in the tuner.
        model_name: A name for people.

    Returns:
        The tuner; it is off where the model cannot be tuned.

    Raises:
        ConfigError: If `model` is not under FSDP2 or tuned already, or a value is not allowed.
    """
    _check(model, "autotune")
    if memory_limit_bytes is not None and memory_limit_bytes <= 0:
        raise ConfigError(f"memory_limit_bytes={memory_limit_bytes} is not allowed; allowed: more than 0, or None")
    live = FsdpModel(model, _untuned(passes_of(model)), memory_limit_bytes)
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
    parts = AutotuneCall.of(live, arguments).start()
    return FsdpTuner(live, parts.follower, parts.thread)


@final
class FsdpTuner(ModelTuner):
    """The tuner of one model under FSDP2 on one rank.

    Its configs have `kept_modules`, `forward_prefetch` and `backward_prefetch`, as `apply` takes them.
    """


def apply(
    model: torch.nn.Module,
    *,
    kept_modules: int = 0,
    forward_prefetch: int | str | None = None,
    backward_prefetch: int | str | None = None,
) -> None:
    """Apply the settings that a tuner adopted in another job, without a tuner; on every rank, before training.

    Passes without gradients run as the model was set up.

    Args:
        model: The model, `fully_shard` called on it or on modules inside.
        kept_modules: Number of modules, the last ones of the forward pass, for which `reshard_after_forward` is turned
            off beside those for which it is off already.
        forward_prefetch: Number of modules that are gathered ahead in the forward pass; None, or "as_set" as in a
            config, leaves the model's own prefetching alone.
        backward_prefetch: The same in the backward pass.

    Raises:
        ConfigError: If `model` is not under FSDP2, or a value is not allowed.
    """
    _check(model, "apply")
    passes = passes_of(model)
    most = len(passes.reshardable)
    if not 0 <= kept_modules <= most:
        raise ConfigError(f"kept_modules={kept_modules} is not allowed; allowed for this model: 0 to {most}")
    depths = [_depth("forward_prefetch", forward_prefetch), _depth("backward_prefetch", backward_prefetch)]
    passes.change(FsdpSettings(kept_modules, *depths))


def _depth(name: str, value: int | str | None) -> int:
    if value in {None, "as_set"}:
        return 0
    if isinstance(value, int) and 1 <= value <= MOST_PREFETCH:
        return value
    raise ConfigError(f"{name}={value!r} is not allowed; allowed: None, 'as_set' or 1 to {MOST_PREFETCH}")


def _untuned(passes: Passes) -> Passes:
    if passes.steps is not None:
        raise ConfigError(
            "autotune() was called on this model before; close() that tuner first, which leaves the model within a few "
            "tens of steps"
        )
    return passes


def _check(model: torch.nn.Module, call: str) -> None:
    """Raise a ConfigError with the remedy if a model is not under FSDP2."""
    if not has_fsdp2():
        raise ConfigError(f"PyTorch {torch.__version__} has no fully_shard (FSDP2); ringtune.fsdp needs 2.6 or newer")
    if not isinstance(model, torch.nn.Module):
        raise ConfigError(f"{call}() got a {type(model).__name__}; it takes the model, a torch.nn.Module")
    if not dist.is_available() or not dist.is_initialized():
        raise ConfigError(f"{call}() needs the process group; call torch.distributed.init_process_group() first")
    _check_kind(model, call)
    mesh = mesh_of(units_of(model))
    if mesh.ndim > 1 and whole_mesh(mesh).size() != dist.get_world_size():
        raise ConfigError(
            f"the model's mesh has {whole_mesh(mesh).size()} of {dist.get_world_size()} ranks and {mesh.ndim} "
            "dimensions; a model on a part of the ranks can be tuned on a mesh of one dimension"
        )


def _check_kind(model: torch.nn.Module, call: str) -> None:
    kinds = {type(module) for module in model.modules()}
    if FullyShardedDataParallel in kinds:
        raise ConfigError(
            "this model is under FullyShardedDataParallel (FSDP1), whose settings are fixed when it is wrapped; use "
            "torch.distributed.fsdp.fully_shard (FSDP2)"
        )
    if DistributedDataParallel in kinds:
        raise ConfigError("this model is under DistributedDataParallel; use ringtune.ddp.autotune(model)")
    if not any(unit.groups for unit in units_of(model)):
        raise ConfigError(f"{call}() got a {type(model).__name__} without FSDP2; call fully_shard() on it first")
