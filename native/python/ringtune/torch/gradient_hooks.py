# SPDX-License-Identifier: Apache-2.0
"""Hooks on the parameters of an optimizer: they notify its reducer that autograd has accumulated a gradient.

In the compiled form a hook submits a plain gradient itself, on the same objects as `GradientReducer.gradient_ready`,
and hands every other one on. Plain are dense gradients on the CPU that travel as they are, after the first ones of a
step: these watch the weights.
"""

import weakref
from functools import cache
from typing import Any, Protocol

import torch

from ringtune.errors import ConfigError
from ringtune.graph_operations.torch_group import torch_library
from ringtune.session.submissions import NO_GROUP, Reduction
from ringtune.world.world import World

from .buffers import dtype_number
from .gradient_entries import GradientEntry


class Reducer(Protocol):
    """The part of `GradientReducer` that hooks use."""

    def gradient_ready(self, parameter: torch.Tensor) -> None:
        """Take note that autograd has accumulated a gradient."""


class GradientHook:
    """Calls the reducer as long as its optimizer lives, so that a replaced optimizer's hooks are inert."""

    def __init__(self, reducer: "weakref.ref[Any]") -> None:
        """Call the reducer that is behind the reference."""
        self._reducer = reducer

    @property
    def reducer(self) -> Any:
        """The reducer, while it lives."""
        return self._reducer()

    def __call__(self, parameter: torch.Tensor) -> None:
        """Notify the reducer of a parameter's gradient."""
        reducer = self._reducer()
        if reducer is not None:
            reducer.gradient_ready(parameter)


class GradientHooks:
    """Makes the hooks of one reducer, and says while a step goes on whether they may submit gradients themselves."""

    def __init__(self, reducer: Reducer, reduction: Reduction, *, is_plain: bool) -> None:
        """Serve a reducer.

        Args:
            reducer: Held weakly.
            reduction: Operation and scales of all gradients.
            is_plain: Whether dense gradients travel as they are.
        """
        self._reducer = weakref.ref(reducer)
        self._library = hook_library() if is_plain else None
        self._lane: Any = None
        if self._library is not None:
            self._lane = self._library.GradientLane(
                self._reducer, int(reduction.op), reduction.prescale, reduction.postscale
            )

    def make(self, entry: GradientEntry) -> Any:
        """Return the hook of a parameter."""
        hook, parameter = GradientHook(self._reducer), entry.parameter
        if self._library is None or entry.group is not NO_GROUP or not parameter.dtype.is_floating_point:
            return hook
        dtype = dtype_number(parameter.dtype)
        return self._library.GradientHook(self._lane, weakref.ref(entry), entry.name, parameter, dtype, hook)

    def open(self, world: World) -> None:
        """Let hooks submit gradients to a world themselves, until `close`."""
        if self._lane is not None:
            self._lane.open(world.engine.submission_door())

    def close(self) -> None:
        """Let the reducer see every gradient."""
        if self._lane is not None:
            self._lane.close()


@cache
def hook_library() -> Any:
    """Return the library of the compiled form; None where it was not built, or does not fit."""
    try:
        return torch_library(torch).find()
    except ConfigError:
        return None


def other_reducers(parameter: torch.nn.Parameter) -> list[Any]:
    """Return the living reducers whose hooks a parameter has."""
    hooks = getattr(parameter, "_post_accumulate_grad_hooks", None) or {}
    plain = (getattr(hook, "complete", hook) for hook in hooks.values())
    reducers = [hook.reducer for hook in plain if isinstance(hook, GradientHook)]
    return [reducer for reducer in reducers if reducer is not None]
