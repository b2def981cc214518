# SPDX-License-Identifier: Apache-2.0
"""Resize policy for optimizers of torch."""

from typing import Any

import torch

from ringtune.elastic import Resize


def scale_learning_rate(resize: Resize) -> None:
    """Scale every learning rate of the state with the number of ranks: twice the ranks, twice the rate.

    The linear scaling rule of Goyal et al. (2017), "Accurate, large minibatch SGD", for a batch per rank that stays as
    it is. The rates that schedulers start from are scaled too. Use it without a reset callback that sets the rate.

    Args:
        resize: The change of the number of ranks.
    """
    values = [value for name, value in vars(resize.state).items() if not name.startswith("_")]
    for value in values:
        if isinstance(value, torch.optim.Optimizer):
            for group in value.param_groups:
                for key in {"lr", "initial_lr", "max_lr", "min_lr"} & set(group):
                    group[key] = _scaled(group[key], resize.factor)
        elif isinstance(value, torch.optim.lr_scheduler.LRScheduler):
            for key in {"base_lrs", "_last_lr"} & set(vars(value)):
                setattr(value, key, [_scaled(rate, resize.factor) for rate in vars(value)[key]])


def _scaled(rate: Any, factor: float) -> Any:
    return rate.mul_(factor) if isinstance(rate, torch.Tensor) else rate * factor
