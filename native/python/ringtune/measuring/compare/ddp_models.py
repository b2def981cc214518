# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel of a script in both arms: as it is, or with its buckets reduced by ringtune's engine."""

import functools
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from .script_facts import Refusal, ScriptFacts


class ParameterHolder(torch.nn.Module):
    """A module of parameters alone, so that DDP reduces their gradients; its forward pass is empty."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        super().__init__()
        self.parameters_of_optimizer = torch.nn.ParameterList(parameters)

    def forward(self) -> None:
        """Return at once: DDP requires the method; the script's own model computes."""


class DdpModels:
    """The models that a script wraps."""

    def __init__(self, facts: ScriptFacts, refusal: Refusal, *, serves_buckets: bool) -> None:
        """Prepare.

        Args:
            facts: Collects the facts of the script.
            refusal: Ends a script that cannot be compared.
            serves_buckets: Whether the engine reduces the buckets, by a communication hook.
        """
        self._serves_buckets = serves_buckets
        self._facts = facts
        self._refusal = refusal
        self._register: Any = DistributedDataParallel.register_comm_hook

    def install(self) -> None:
        """Watch DDP's constructor and its communication hooks from now on; scripts may have imported the class."""
        construct = DistributedDataParallel.__init__

        @functools.wraps(construct)
        def constructed(model: Any, *args: Any, **kwargs: Any) -> None:
            construct(model, *args, **kwargs)
            if not isinstance(model.module, ParameterHolder):
                self._take(model)

        @functools.wraps(self._register)
        def registered(model: Any, state: object, hook: Any) -> None:
            self._take_hook(model, state, hook)

        untyped: Any = DistributedDataParallel
        untyped.__init__ = constructed
        untyped.register_comm_hook = registered

    def _take(self, model: Any) -> None:
        """Note a model, and give its buckets to the engine in that arm."""
        self._facts.ddp_models += 1
        self._facts.backend = dist.get_backend(model.process_group)
        self._facts.note_parameters(model.parameters())
        size = dist.get_world_size(model.process_group)
        if size != dist.get_world_size():
            self._leave_reducer(f"wraps a model over {size} of the {dist.get_world_size()} ranks")
        if self._serves_buckets:
            import ringtune.torch as hvd  # noqa: PLC0415  (the other arm has no engine)

            hvd.init()
            self._register(model, hvd.DdpState(), hvd.ddp_hook)

    def _take_hook(self, model: Any, state: object, hook: Any) -> None:
        """Register a hook of the script's, where both arms can have it."""
        if getattr(hook, "__module__", "") == "ringtune.torch.ddp":
            self._facts.hooks += 1  # the engine's arm has it already, and the other one is DDP without it
            return
        if hook is not allreduce_hook:
            self._leave_reducer(f"registers the communication hook {getattr(hook, '__qualname__', repr(hook))}")
        if not self._serves_buckets:
            self._register(model, state, hook)

    def _leave_reducer(self, reason: str) -> None:
        """Note why the engine cannot take over DDP's reducer; a run that counts on it ends."""
        self._facts.own_groups = self._facts.own_groups or reason
        if self._serves_buckets:
            self._refusal.refuse(f"the script {reason} in ringtune's arm alone; let it do the same in every run")
