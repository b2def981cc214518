# SPDX-License-Identifier: Apache-2.0
"""One parameter of a distributed optimizer, and how far its gradient has come in this step."""

# ruff: noqa: SLF001  (torch's version of a tensor has no public name)

import weakref
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session.submissions import NO_GROUP, Group
from ringtune.world.handles import Handle

from .registered_gradients import GradientHome, can_have_home


class GradientEntry:
    """A parameter's place in the reducer.

    Attributes:
        name: Key that matches the ranks' gradients.
        label: The parameter's name, for messages.
        parameter: The parameter; trained or frozen.
        group: The gradients with which this one is reduced together.
        handle: The operation in flight, if there is one.
        gradient: The tensor that is in flight, or that is being accumulated.
        version: The version of `gradient` when it was submitted: every write that torch knows of raises it.
        pointer: The memory of `gradient` when it was submitted; 0 where it is sparse.
        known: The gradient that `note` has seen, and its version then; None where there was none.
        passes: Backward passes that were accumulated in `gradient`.
        is_sparse: Whether the last gradient was sparse.
        others: Reducers of other optimizers that train the parameter too; then it is submitted by `synchronize` alone.
        home: Registered memory of the gradient, if it has any.
        hook: The hook on the parameter; None until the parameter was seen to be trained.
    """

    __slots__ = (
        "__weakref__",
        "gradient",
        "group",
        "handle",
        "home",
        "hook",
        "is_sparse",
        "known",
        "label",
        "name",
        "others",
        "parameter",
        "passes",
        "pointer",
        "version",
    )

    def __init__(self, name: str, label: str, parameter: torch.nn.Parameter, group: Group = NO_GROUP) -> None:
        """Begin without a gradient."""
        self.name = name
        self.label = label
        self.parameter = parameter
        self.group = group
        self.handle: Handle | None = None
        self.gradient: torch.Tensor | None = None
        self.version = 0
        self.pointer = 0
        self.known: tuple[weakref.ref[torch.Tensor], int] | None = None
        self.passes = 0
        self.is_sparse = False
        self.others: list[weakref.ref[Any]] = []
        self.home: GradientHome | None = None
        self.hook: Any = None

    @property
    def needs_home(self) -> bool:
        """True if its gradients could live in registered memory and do not."""
        return self.home is None and not self.is_sparse and can_have_home(self.parameter)

    def differs_from(self, gradient: torch.Tensor | None) -> bool:
        """Return whether the parameter's gradient is another than the one in flight, or was written to since then."""
        return (
            gradient is None
            or gradient is not self.gradient
            or gradient._version != self.version
            or (self.pointer != 0 and gradient.data_ptr() != self.pointer)
        )

    def note(self) -> None:
        """Remember the gradient that there is, without keeping it alive."""
        gradient = self.parameter.grad
        self.known = None if gradient is None else (weakref.ref(gradient), gradient._version)

    def is_replaced(self) -> bool:
        """Return whether the parameter has another gradient than the one that was noted."""
        gradient = self.parameter.grad
        return gradient is not None and (self.known is None or self.known[0]() is not gradient)

    def is_changed(self) -> bool:
        """Return whether the gradient was replaced, or written to, since it was noted."""
        gradient = self.parameter.grad
        return self.is_replaced() or (
            gradient is not None and self.known is not None and gradient._version != self.known[1]
        )

    def track(self, gradient: torch.Tensor, handle: Handle) -> None:
        """Take note that a gradient is in flight."""
        self.handle = handle
        self.gradient = gradient
        self.version = gradient._version
        self.pointer = gradient.data_ptr() if gradient.layout is torch.strided else 0

    def zeros(self) -> torch.Tensor:
        """Return the gradient of a parameter that took no part, in the layout that it had before."""
        parameter = self.parameter
        if not self.is_sparse:
            return torch.zeros_like(parameter, requires_grad=False)
        rows, *row = parameter.shape
        place = parameter.device
        indices = torch.empty((1, 0), dtype=torch.int64, device=place)
        values = torch.empty((0, *row), dtype=parameter.dtype, device=place)
        return torch.sparse_coo_tensor(
            indices, values, (rows, *row), device=place, is_coalesced=True, check_invariants=False
        )


def changed_in_flight(entry: GradientEntry) -> ConfigError:
    """Return the error for a gradient that was changed while it was being combined."""
    return ConfigError(
        f"the gradient of {entry.label} was changed on a rank between backward() and step(), while it was being "
        "combined. To clip gradients, or to change them otherwise, call synchronize() first, and step() inside "
        "skip_synchronize(): optimizer.synchronize(); ...; with optimizer.skip_synchronize(): optimizer.step(). The "
        "gradients are unusable now: call zero_grad()"
    )


def computed_again(entry: GradientEntry, passes_per_step: int) -> ConfigError:
    """Return the error for a gradient that autograd has computed while an earlier one is in flight.

    `synchronize` says so on all ranks, unless the earlier one was thrown away.
    """
    if entry.parameter.grad is not entry.gradient:
        return ConfigError(
            f"the gradient of {entry.label} was thrown away while it was being combined, as by model.zero_grad(), "
            "and computed again; call zero_grad() of this optimizer instead, on all ranks, and synchronize() before "
            "gradients are used otherwise than by step()"
        )
    entry.version = -1
    return ConfigError(
        f"the gradient of {entry.label} was computed more than backward_passes_per_step={passes_per_step} times before "
        "step(). For several backward passes raise backward_passes_per_step, or call step() after each; a layer that "
        "is used twice under torch.utils.checkpoint needs use_reentrant=False. The gradients are unusable now: call "
        "zero_grad()"
    )
