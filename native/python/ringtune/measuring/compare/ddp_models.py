# SPDX-License-Identifier: Apache-2.0
"""DistributedDataParallel of a script in both arms: as it is, or with its buckets reduced by ringtune's engine."""

import functools
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from .messages import Arm
from .script_facts import Refusal, ScriptFacts


class ParameterHolder(torch.nn.Module):
    """A module of nothing but parameters, so that DDP reduces their gradients; its forward pass computes nothing."""

    def __init__(self, parameters: list[torch.nn.Parameter]) -> None:
        super().__init__()
        self.parameters_of_optimizer = torch.nn.ParameterList(parameters)

    def forward(self) -> None:
        """Compute nothing."""


class DdpModels:
    """The models that a script wraps."""

    def __init__(self, arm: Arm, facts: ScriptFacts, refusal: Refusal) -> None:
        """Prepare.

        Args:
            arm: Engine that reduces gradients.
            facts: Takes what is seen.
            refusal: Ends a script that cannot be compared.
        """
        self._arm = arm
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
        if self._arm == "ddp":
            return
        if dist.get_world_size(model.process_group) != dist.get_world_size():
            self._refusal.refuse(
                f"DistributedDataParallel got a process group of {dist.get_world_size(model.process_group)} of the "
                f"{dist.get_world_size()} ranks; models that span all ranks can be compared"
            )
        import ringtune.torch as hvd  # noqa: PLC0415  (the other arm has no engine)

        hvd.init()
        self._register(model, hvd.DdpState(), hvd.ddp_hook)

    def _take_hook(self, model: Any, state: object, hook: Any) -> None:
        """Register a hook of the script's, where both arms can have it."""
        if getattr(hook, "__module__", "") == "ringtune.torch.ddp":
            self._facts.hooks += 1  # the engine's arm has it already, and the other one is DDP without it
        elif hook is not allreduce_hook:
            name = getattr(hook, "__qualname__", repr(hook))
            self._refusal.refuse(
                f"the script registers the communication hook {name}, in whose place ringtune's cannot stand; leave "
                "it out for the comparison"
            )
        elif self._arm == "ddp":
            self._register(model, state, hook)
