# SPDX-License-Identifier: Apache-2.0
"""An optimizer becomes distributed in place: the same object, with a class of ours before its own.

There is one state by construction: a scheduler made before wrapping, a logger or a scaler that holds the optimizer
sees the training loop's own state, even if `param_groups` or `state` are replaced later.
"""

# ruff: noqa: SLF001  (a scaler has no hook but what it reads; schedulers look for a private mark)

import sys
import warnings
from typing import Any, NoReturn, TypeVar

import torch

from ringtune.errors import ConfigError

_SCALER_MODULE = "torch.amp.grad_scaler"
Distributed = TypeVar("Distributed", bound="WrappedOptimizer")


class WrappedOptimizer:
    """The base of the distributed optimizers. It stands before the optimizer's class in the method order."""

    @property
    def param_groups(self) -> Any:
        """The parameter groups; a `GradScaler` that asks for them is about to read and write the gradients."""
        if sys._getframe(1).f_globals.get("__name__") == _SCALER_MODULE:
            self.before_unscaling()
        return vars(self)["param_groups"]

    @param_groups.setter
    def param_groups(self, param_groups: Any) -> None:
        vars(self)["param_groups"] = param_groups

    def before_unscaling(self) -> None:
        """Prepare the gradients for a `GradScaler`, so that all ranks find the same in them."""
        raise NotImplementedError

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise ConfigError(
            "a distributed optimizer cannot be copied or saved whole, for what it has in flight belongs to this job; "
            "save optimizer.state_dict(), and load it with load_state_dict() into an optimizer that "
            "DistributedOptimizer() returned"
        )


def wrapped(optimizer: torch.optim.Optimizer, mixin: type[Distributed]) -> Distributed:
    """Give an optimizer the class that makes it distributed, and return it.

    Args:
        optimizer: Any; a scheduler may have counted its steps so far.
        mixin: A `WrappedOptimizer`, whose `step` counts for schedulers.
    """
    replaced = vars(optimizer).pop("step", None)
    if replaced is not None and not hasattr(replaced, "_wrapped_by_lr_sched"):
        warnings.warn(
            f"step() of this {type(optimizer).__name__} was replaced before DistributedOptimizer wrapped it, and would "
            "step without the other ranks; it is back to the class's own. Replace it after wrapping.",
            stacklevel=3,
        )
    base = type(optimizer)
    names = {"__module__": base.__module__, "__doc__": base.__doc__}
    untyped: Any = optimizer
    untyped.__class__ = type(base.__name__, (mixin, base), names)
    distributed: Distributed = untyped
    return distributed


def counted_by_schedulers(step: Any) -> Any:
    """Mark a `step` that tells schedulers of itself, and that torch need not wrap with its profiler once more."""
    step.hooked = True
    step._wrapped_by_lr_sched = True
    return step
