# SPDX-License-Identifier: Apache-2.0
"""Resize policy for optimizers of torch."""

import numbers
import re
from typing import Any

import torch

from ringtune.elastic import Resize
from ringtune.errors import ConfigError

GROUP_RATES = ("lr", "initial_lr", "max_lr", "min_lr", "swa_lr")
"""Rates in a parameter group: the present one, and those that schedulers keep there."""
RATES = ("base_lrs", "_last_lr", "eta_min", "max_lrs", "min_lrs", "default_min_lr")
"""Rates that torch's schedulers keep: where they start from, the latest ones, tops and floors."""
TORCH_MODULES = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")
_SOUNDS_LIKE_RATE = re.compile(r"(^|_)(lrs?|eta|rates?)(_|$)")


def scale_learning_rate(resize: Resize) -> None:
    """Scale every learning rate of the state with the number of ranks: twice the ranks, twice the rate.

    The linear scaling rule of Goyal et al. (2017), "Accurate, large minibatch SGD", for a batch per rank that stays as
    it is. All that schedulers compute rates from is scaled too, floors such as `eta_min` and schedulers inside of
    others included, so that each later rate is twice that of a training without the change. Use it without a reset
    callback that sets the rate.

    Args:
        resize: The change of the number of ranks.

    Raises:
        ConfigError: If a scheduler that is not torch's has rates of its own, or is no `LRScheduler`; no rate changes.
    """
    values = [value for name, value in vars(resize.state).items() if not name.startswith("_")]
    schedulers: dict[int, torch.optim.lr_scheduler.LRScheduler] = {}
    for value in values:
        _check_kind(value)
        _collect(value, schedulers)
    scaling = _Scaling(resize.factor)
    for value in values:
        if isinstance(value, torch.optim.Optimizer):
            for group in value.param_groups:
                scaling.apply(group, GROUP_RATES)
    for scheduler in schedulers.values():
        is_plateau = isinstance(scheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
        scaling.apply(vars(scheduler), (*RATES, "eps") if is_plateau else RATES)  # `eps` is the least change of a rate


class _Scaling:
    """Multiplies rates; a tensor that several places share once."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._seen: dict[int, torch.Tensor] = {}

    def apply(self, holder: dict[str, Any], names: tuple[str, ...]) -> None:
        """Scale the values that a dictionary holds under some names."""
        for name in names:
            if holder.get(name) is not None:
                holder[name] = self._scaled(holder[name])

    def _scaled(self, rate: Any) -> Any:
        if isinstance(rate, list | tuple):
            return type(rate)(map(self._scaled, rate))
        if not isinstance(rate, torch.Tensor):
            return rate * self._factor
        if id(rate) not in self._seen:
            self._seen[id(rate)] = rate.mul_(self._factor)
        return rate


def _collect(value: Any, found: dict[int, torch.optim.lr_scheduler.LRScheduler]) -> None:
    """Collect a scheduler and those that it holds, each once.

    Raises:
        ConfigError: If one has rates that are not known to be ones.
    """
    if isinstance(value, list | tuple):
        for inner in value:
            _collect(inner, found)
    if not isinstance(value, torch.optim.lr_scheduler.LRScheduler) or id(value) in found:
        return
    _check_rates(value)
    found[id(value)] = value
    for inner in vars(value).values():
        _collect(inner, found)


def _check_rates(scheduler: torch.optim.lr_scheduler.LRScheduler) -> None:
    """Refuse a scheduler that is not torch's and has a number that may be a rate."""
    if type(scheduler).__module__ in TORCH_MODULES:
        return
    doubtful = [name for name, value in vars(scheduler).items() if name not in RATES and _may_be_rate(name, value)]
    if doubtful:
        raise ConfigError(
            f"scale_learning_rate cannot tell whether {', '.join(sorted(doubtful))} of {type(scheduler).__name__} are "
            "learning rates; set the rates in a policy of your own (state.register_resize_policy), or use "
            "keep_learning_rate"
        )


def _may_be_rate(name: str, value: Any) -> bool:
    values = value if isinstance(value, list | tuple) else [value]
    are_numbers = all(
        isinstance(one, numbers.Real | torch.Tensor) and not isinstance(one, bool | int) for one in values
    )
    return bool(values) and are_numbers and _SOUNDS_LIKE_RATE.search(name) is not None


def _check_kind(value: Any) -> None:
    """Refuse an object that sets an optimizer's rates and is no scheduler of torch's kind."""
    is_known = isinstance(value, torch.optim.Optimizer | torch.optim.lr_scheduler.LRScheduler | torch.nn.Module)
    if is_known or not callable(getattr(value, "step", None)):
        return
    if isinstance(getattr(value, "optimizer", None), torch.optim.Optimizer):
        raise ConfigError(
            f"scale_learning_rate does not know how {type(value).__name__} sets learning rates, for it is no "
            "LRScheduler of torch; set the rates in a policy of your own (state.register_resize_policy), or use "
            "keep_learning_rate"
        )
