# SPDX-License-Identifier: Apache-2.0
"""States of a training with PyTorch."""

from typing import Any

import torch

from ringtune import elastic
from ringtune.elastic.handlers import StateHandler

from .handlers import handler_of
from .transfer import broadcast_tree


class ObjectState(elastic.ObjectState):
    """State of plain values and tensors, and of objects that have `state_dict` and `load_state_dict`."""

    def _handler_of(self, name: str, value: Any) -> StateHandler:
        return handler_of(name, value)

    def _broadcast(self, tree: dict[str, Any], root: int) -> Any:
        return broadcast_tree(tree, root, "elastic.state")


class TorchState(ObjectState):
    """State of a training: model, optimizer, sampler, and further objects and values by name.

    Each keyword argument becomes an attribute. Modules, optimizers, samplers, schedulers, scalers and whatever else has
    `state_dict` and `load_state_dict` are changed in place; plain values are replaced. There may be several of each.
    """

    def __init__(
        self, model: torch.nn.Module | None = None, optimizer: torch.optim.Optimizer | None = None, **kwargs: Any
    ) -> None:
        """Take and save the objects and values.

        Args:
            model: Module to train.
            optimizer: Its optimizer; that of `DistributedOptimizer`.
            kwargs: Further ones by name, such as `sampler=`, `scheduler=`, `epoch=0`; the same names on all ranks.

        Raises:
            ConfigError: If a name is one of the state's own, or a value cannot be sent to other ranks.
        """
        super().__init__(model=model, optimizer=optimizer, **kwargs)
