# SPDX-License-Identifier: Apache-2.0
"""Averages gradients over the ranks while backward still runs.

A hook on every parameter submits its gradient as soon as autograd has accumulated it; `synchronize` submits what the
backward pass left out and waits for all. The hook runs in autograd's threads, everything else in the main thread;
backward has returned before `synchronize` is called, so no lock is needed.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import torch

from ringtune.errors import ConfigError, RingtuneError
from ringtune.session import SESSION
from ringtune.world import World

from .operations import submit_gradient, synchronize_in

NamedParameter = tuple[str, torch.nn.Parameter]


class GradientReducer:
    """Owns the hooks of one optimizer's parameters and the operations in flight."""

    def __init__(self, named_parameters: Sequence[NamedParameter], passes_per_step: int) -> None:
        """Register a hook per parameter that needs a gradient.

        Args:
            named_parameters: Distinct names, the same on all ranks.
            passes_per_step: Backward passes that are accumulated here before a gradient is submitted.
        """
        self._passes_per_step = passes_per_step
        self._parameters: dict[int, NamedParameter] = {}
        self._passes: dict[int, int] = {}
        self._handles: dict[int, int] = {}
        self._world: World | None = None
        self.add(named_parameters)

    def add(self, named_parameters: Sequence[NamedParameter]) -> None:
        """Take in more parameters, with names that are new."""
        for name, parameter in named_parameters:
            if not parameter.requires_grad:
                continue
            self._parameters[id(parameter)] = (name, parameter)
            self._passes[id(parameter)] = 0
            untyped: Any = parameter  # torch leaves the method without annotations
            untyped.register_post_accumulate_grad_hook(_Hook(self))

    @property
    def is_in_flight(self) -> bool:
        """Whether gradients were submitted and not yet waited for."""
        return bool(self._handles)

    def gradient_ready(self, parameter: torch.Tensor) -> None:
        """Take note that autograd has accumulated a gradient; submit it if this was its last pass.

        Raises:
            ConfigError: If the gradient was submitted before and not yet waited for, or cannot be taken.
            EngineError: If the world is lost.
        """
        key = id(parameter)
        if key not in self._parameters:  # a copy of the parameter, made with its hooks
            return
        if key in self._handles:
            name = self._parameters[key][0]
            raise ConfigError(
                f"the gradient of {name} was computed more than backward_passes_per_step={self._passes_per_step} "
                "times before step(); raise backward_passes_per_step, or call step() after each backward pass. "
                "The gradients are unusable now: call synchronize() and zero_grad()"
            )
        self._passes[key] += 1
        if self._passes[key] >= self._passes_per_step:
            self._submit(key)

    def synchronize(self) -> None:
        """Submit gradients that the backward pass did not reach, and wait until all are averaged.

        A parameter without a gradient counts as zeros, for other ranks may have one.

        Raises:
            EngineError: If a gradient differs between ranks or the world is lost; the first error, after all other
                gradients were waited for.
        """
        for key in self._parameters:
            if key not in self._handles:
                self._submit(key)
        handles = list(self._handles.values())
        world = self._world
        self._handles.clear()
        self._passes = dict.fromkeys(self._passes, 0)
        if world is None:  # an optimizer without parameters that need gradients
            return
        errors = [error for error in (_wait(world, handle) for handle in handles) if error is not None]
        if errors:
            raise errors[0]

    def _submit(self, key: int) -> None:
        name, parameter = self._parameters[key]
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        world = SESSION.require()
        if world is not self._world:
            self._join(world)
        self._handles[key] = submit_gradient(world, f"gradient.{name}", parameter.grad)

    def _join(self, world: World) -> None:
        """Tell a world, once, which gradients a step submits."""
        self._world = world
        for name, parameter in self._parameters.values():
            world.gradient_set.add(name, str(parameter.dtype), tuple(parameter.shape))


def _wait(world: World, handle: int) -> RingtuneError | None:
    try:
        synchronize_in(world, handle)
    except RingtuneError as error:
        return error
    return None


class _Hook:
    """Calls the reducer as long as its optimizer lives, so that a replaced optimizer's hooks do nothing."""

    def __init__(self, reducer: GradientReducer) -> None:
        self._reducer = weakref.ref(reducer)

    def __call__(self, parameter: torch.Tensor) -> None:
        reducer = self._reducer()
        if reducer is not None:
            reducer.gradient_ready(parameter)
