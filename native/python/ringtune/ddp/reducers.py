# SPDX-License-Identifier: Apache-2.0
"""Gives a DDP model another reducer, and with it other buckets; says for which models that cannot be done.

The new reducer is built as DDP's constructor builds one: its first step has one bucket (or, where unused parameters
are searched for, buckets in the reverse order of the parameters), then DDP itself cuts it anew in the order in which
the gradients arrived, equally on all ranks. Nothing here communicates.

All that is used of DDP's inside is used here; it was read in PyTorch 2.13, torch/nn/parallel/distributed.py.
"""
# ruff: noqa: SLF001  (DDP has no public way to other buckets)

from collections import Counter
from dataclasses import replace
from typing import Any

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.nn.parallel.distributed import _find_tensors

from .buckets import BucketSizes

NEEDED = ("reducer", "_bucket_config", "_comm_hooks", "_ddp_init_helper", "_build_params_for_reducer")
"""What of DDP's inside is used; a version of PyTorch without one of them cannot be tuned."""
REPLACED = (
    "reducer",
    "logger",
    "_bucket_config",
    "bucket_bytes_cap",
    "bucket_bytes_cap_default",
    "_has_rebuilt_buckets",
    "_static_graph_delay_allreduce_enqueued",
)
"""What of a model belongs to its reducer."""


def find_objection(model: DistributedDataParallel, *, accept_hook: bool) -> str | None:
    """Return why a model's buckets cannot be changed, and what would help; None where they can.

    Args:
        model: Wrapped; whether its hooks are known depends on whether it was trained yet.
        accept_hook: Whether the user vouches for the communication hook.
    """
    inside: Any = model
    missing = [name for name in NEEDED if not hasattr(model, name)]
    if missing:
        return f"this DDP of PyTorch {torch.__version__} has no {', '.join(missing)}; PyTorch 2.13 has"
    reasons = {
        "it uses the Python reducer of torch.compile; set torch._dynamo.config.optimize_ddp to another mode":
            inside._use_python_reducer,
        "mixed_precision=... ties its parameters to the buckets; use torch.autocast":
            inside.mixed_precision is not None,
        "delay_all_reduce_named_params takes parameters out of the buckets": bool(inside._delay_all_reduce_params),
        "bucket_cap_mb_list gives each bucket a size of its own; leave it away":
            inside._bucket_config.has_custom_per_bucket_caps,
        "optimizers that run in the backward pass are tied to the buckets":
            any(hasattr(parameter, "_in_backward_optimizers") for parameter in model.parameters()),
    }  # fmt: skip
    found = [reason for reason, holds in reasons.items() if holds]
    return found[0] if found else _hook_objection(inside, accept_hook=accept_hook)


def _hook_objection(inside: Any, *, accept_hook: bool) -> str | None:
    if not inside._comm_hooks:
        name = inside._get_ddp_logging_data().get("comm_hook")
        return None if not name else f"the communication hook {name} cannot be moved to another reducer"
    for hook, state in inside._comm_hooks:
        if not accept_hook and not (state is None or isinstance(state, dist.ProcessGroup)):
            return (
                f"the communication hook {hook.__qualname__} keeps a {type(state).__name__}, perhaps for each bucket; "
                "if it keeps nothing that depends on a bucket's size or number, call autotune(model, accept_hook=True)"
            )
    return None


def bucket_sizes(model: DistributedDataParallel) -> BucketSizes:
    """Return the sizes that a model was wrapped with, or switched to."""
    capacity = model._bucket_config
    return BucketSizes(int(capacity.bucket_bytes_cap), int(capacity.first_bucket_bytes_cap))


def is_joining(model: DistributedDataParallel) -> bool:
    """Return whether the model is in its `join()` context, or was: DDP does not take that back."""
    return bool(model._join_config.enable)


def output_tensors(output: object) -> list[torch.Tensor]:
    """Return what DDP takes for the tensors in a model's output."""
    return list(_find_tensors(output))


def gradient_counts(model: DistributedDataParallel) -> Counter[tuple[str, tuple[int, ...]]]:
    """Return how many gradients of each (dtype, shape) are reduced in a step."""
    return Counter((str(p.dtype).removeprefix("torch."), tuple(p.shape)) for p in reduced_parameters(model))


def gradient_bytes(model: DistributedDataParallel) -> int:
    """Return the bytes of all gradients that are reduced in a step."""
    return sum(parameter.numel() * parameter.element_size() for parameter in reduced_parameters(model))


def reduced_parameters(model: DistributedDataParallel) -> list[torch.nn.Parameter]:
    """Return the parameters whose gradients are reduced, in DDP's order."""
    inside: Any = model
    parameters, _ = inside._build_params_for_reducer()
    return list(parameters)


class Rebuild:
    """A new reducer in the place of a model's, which is kept until the new one is committed or discarded.

    For that long both have their buckets in memory. Between two steps only: no backward pass may be under way.
    """

    def __init__(self, model: DistributedDataParallel, sizes: BucketSizes) -> None:
        """Build the new reducer.

        Args:
            model: Its gradients may be there already; they stay what they are.
            sizes: Of the new buckets.

        Raises:
            RuntimeError: If there is too little memory, or the last backward pass is not complete; the model is as it
                was.
        """
        model._check_reducer_finalized()
        self._model: Any = model
        self._before = {name: vars(model)[name] for name in REPLACED if name in vars(model)}
        try:
            self._build(sizes)
        except BaseException:
            self._restore()
            raise

    def commit(self) -> None:
        """Let go of the old reducer: its hooks on the parameters are gone, its buckets with the last reference."""
        self._before["reducer"]._remove_autograd_hooks()
        self._before.clear()

    def discard(self) -> None:
        """Put the old reducer back."""
        self._model.reducer._remove_autograd_hooks()
        self._restore()

    def _build(self, sizes: BucketSizes) -> None:
        model = self._model
        model._bucket_config = replace(
            model._bucket_config, bucket_bytes_cap=sizes.cap_bytes, first_bucket_bytes_cap=sizes.first_bytes
        )
        model.bucket_bytes_cap = sizes.cap_bytes
        model.bucket_bytes_cap_default = sizes.first_bytes < sizes.cap_bytes
        parameters, expects_sparse = model._build_params_for_reducer()
        names = model._build_debug_param_to_name_mapping(parameters)
        model._ddp_init_helper(parameters, expects_sparse, names, model.static_graph)
        model._has_rebuilt_buckets = False
        if model.static_graph:
            model.reducer._set_static_graph()
            model.logger._set_static_graph()
            model._static_graph_delay_allreduce_enqueued = False
        for hook, state in model._comm_hooks:
            model.logger._set_comm_hook_name(hook.__qualname__)
            dist._register_comm_hook(model.reducer, state, hook)  # type: ignore[attr-defined]

    def _restore(self) -> None:
        for name, value in self._before.items():
            setattr(self._model, name, value)
        self._before.clear()
