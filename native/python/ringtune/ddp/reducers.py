# SPDX-License-Identifier: Apache-2.0
"""Replaces the reducer of a DDP model, and with it the buckets; finds the models where that is impossible.

The new reducer is built as DDP's constructor builds one: its first step has one bucket (or, where unused parameters
are searched for, buckets in the reverse order of the parameters), then DDP itself cuts it anew in the order in which
the gradients arrived, equally on all ranks. It covers the parameters that the old one covers, frozen ones as well.
This module does not communicate.

On a GPU the old buckets are let go of, or put back, only once the device is idle: their memory may belong to another
stream than the one that still reads it, and the caching allocator does not order the two.

This module and `reduced_parameters` alone use DDP's private attributes, those of PyTorch 2.13
(torch/nn/parallel/distributed.py). An older DDP has no `_bucket_config`, but `bucket_bytes_cap`, and for the first
bucket a constant of `torch.distributed`.
"""
# ruff: noqa: SLF001  (DDP has no public way to other buckets)

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

from .buckets import BucketSizes
from .reduced_parameters import ReducedParameters

NEEDED = (
    "reducer",
    "bucket_bytes_cap",
    "mixed_precision",
    "_comm_hooks",
    "_ddp_init_helper",
    "_build_params_for_reducer",
    "_use_python_reducer",
    "_delay_all_reduce_params",
)
"""Private attributes of DDP that are used; a version of PyTorch without one of them cannot be tuned."""
REPLACED = (
    "reducer",
    "logger",
    "_bucket_config",
    "bucket_bytes_cap",
    "bucket_bytes_cap_default",
    "_has_rebuilt_buckets",
    "_static_graph_delay_allreduce_enqueued",
    "_ringtune_first_bucket_bytes",
)
"""The attributes of a model that belong to its reducer; the last is ours, where DDP keeps no first bucket's size."""


def find_objection(model: DistributedDataParallel, *, accept_hook: bool) -> str | None:
    """Return the reason why a model's buckets cannot be changed, and the remedy; None where they can.

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
    inside: Any = model
    if hasattr(inside, "_bucket_config"):
        capacity = inside._bucket_config
        caps: tuple[int, ...] = capacity.per_bucket_bytes_caps
        return BucketSizes(int(capacity.bucket_bytes_cap), caps[0] if caps else int(capacity.first_bucket_bytes_cap))
    is_cap = not getattr(inside, "bucket_bytes_cap_default", True)
    wrapped_with = inside.bucket_bytes_cap if is_cap else dist._DEFAULT_FIRST_BUCKET_BYTES  # type: ignore[attr-defined]
    return BucketSizes(int(inside.bucket_bytes_cap), int(vars(model).get("_ringtune_first_bucket_bytes", wrapped_with)))


def is_joining(model: DistributedDataParallel) -> bool:
    """Return whether the model is in its `join()` context, or was: DDP does not take that back."""
    return bool(model._join_config.enable)


class Rebuild:
    """A new reducer in the place of a model's, which is kept until the new one is committed or discarded.

    For that long both have their buckets in memory. Between two steps only: no backward pass may be under way.
    `commit` and `discard` wait for the model's GPUs.
    """

    def __init__(self, model: DistributedDataParallel, reduced: ReducedParameters, sizes: BucketSizes) -> None:
        """Build the new reducer.

        Args:
            model: Its gradients may be there already; they stay as they are.
            reduced: The parameters of the model's reducer.
            sizes: Sizes of the new buckets.

        Raises:
            RuntimeError: If there is too little memory, or the last backward pass is not complete; the model is as it
                was.
        """
        model._check_reducer_finalized()
        self._model: Any = model
        self._before = {name: vars(model)[name] for name in REPLACED if name in vars(model)}
        try:
            self._build(reduced, sizes)
        except BaseException:
            self._restore()
            raise

    def commit(self) -> None:
        """Let go of the old reducer: its hooks on the parameters are gone, its buckets with the last reference."""
        self._join_streams()
        self._before["reducer"]._remove_autograd_hooks()
        self._before.clear()

    def discard(self) -> None:
        """Put the old reducer back."""
        self._join_streams()
        self._model.reducer._remove_autograd_hooks()
        self._restore()

    def _build(self, reduced: ReducedParameters, sizes: BucketSizes) -> None:
        model = self._model
        model.bucket_bytes_cap = sizes.cap_bytes
        parameters, are_sparse, names = list(reduced.parameters), list(reduced.are_sparse), dict(reduced.names)
        with reduced.trained(), _first_bucket_bytes(model, sizes):
            model._ddp_init_helper(parameters, are_sparse, names, model.static_graph)
        model._has_rebuilt_buckets = False
        if model.static_graph:
            model.reducer._set_static_graph()
            model.logger._set_static_graph()
            model._static_graph_delay_allreduce_enqueued = False
        for hook, state in model._comm_hooks:
            model.logger._set_comm_hook_name(hook.__qualname__)
            dist._register_comm_hook(model.reducer, state, hook)  # type: ignore[attr-defined]

    def _restore(self) -> None:
        for name in REPLACED:
            if name in self._before:
                setattr(self._model, name, self._before[name])
            else:
                vars(self._model).pop(name, None)
        self._before.clear()

    def _join_streams(self) -> None:
        """Wait until the buckets are unused; a gradient that lies in one keeps its memory for this stream."""
        parameters = [parameter for parameter in self._model.parameters() if parameter.device.type == "cuda"]
        for device in {parameter.device for parameter in parameters}:
            torch.cuda.synchronize(device)
        for parameter in parameters:
            gradient = parameter.grad
            if self._model.gradient_as_bucket_view and gradient is not None and gradient.layout is torch.strided:
                gradient.record_stream(torch.cuda.current_stream(parameter.device))


@contextmanager
def _first_bucket_bytes(model: Any, sizes: BucketSizes) -> Iterator[None]:
    """Make DDP's own code build a reducer with these sizes, wherever it looks for the first bucket's size."""
    if hasattr(model, "_bucket_config"):
        model._bucket_config = replace(
            model._bucket_config,
            bucket_bytes_cap=sizes.cap_bytes,
            first_bucket_bytes_cap=sizes.first_bytes,
            per_bucket_bytes_caps=sizes.applied_to(model.bucket_bytes_cap_list),  # the list of the constructor
        )
        model.bucket_bytes_cap_default = sizes.first_bytes < sizes.cap_bytes
        yield
        return
    inside: Any = dist
    usual = inside._DEFAULT_FIRST_BUCKET_BYTES
    model.bucket_bytes_cap_default = True  # the constant then holds for the first bucket
    model._ringtune_first_bucket_bytes = sizes.first_bytes
    inside._DEFAULT_FIRST_BUCKET_BYTES = sizes.first_bytes
    try:
        yield
    finally:
        inside._DEFAULT_FIRST_BUCKET_BYTES = usual
