# SPDX-License-Identifier: Apache-2.0
"""Notices the steps of a DDP model by its forward passes and by the backward passes that synchronised gradients."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn.parallel import DistributedDataParallel

from ringtune.tuning.model.forward_pass import is_captured, output_tensors
from ringtune.tuning.model.live_model import RemovableHandle, Steps

from .reduced_parameters import ReducedParameters
from .reducers import is_joining
from .static_graph import StaticGraph


def follow_steps(model: DistributedDataParallel, reduced: ReducedParameters, steps: Steps) -> Sequence[RemovableHandle]:
    """Report a model's steps from now on; return the handles that end it."""
    graph = StaticGraph(reduced)
    hooks = ForwardHooks(StepsOfModel(steps, graph))
    return model.register_forward_pre_hook(hooks.before), model.register_forward_hook(hooks.after), graph


class StepsOfModel:
    """Finds the ends of steps between forward and backward passes."""

    def __init__(self, steps: Steps, graph: StaticGraph) -> None:
        self._steps = steps
        self._graph = graph
        self._backward_mode: bool | None = None  # of the model at the forward pass whose backward pass has begun

    def before_forward(self, model: DistributedDataParallel) -> None:
        """Notice the end of a step: a gradient pass begins, and a synchronised one has been.

        Raises:
            RuntimeError: If a static graph has changed.
        """
        if not self._steps.is_following or not torch.is_grad_enabled() or self._has_parted(model):
            return
        if self._backward_mode is not None:
            self._graph.end_pass(model)
        # In another mode it is an evaluation, perhaps of one rank alone. A static graph's first backward pass with a
        # new reducer must be a synchronised one.
        is_end = self._backward_mode == model.training
        if is_end and (model.require_backward_grad_sync or not model.static_graph):
            self._backward_mode = None
            self._steps.end_step()
        if model.static_graph and model.require_backward_grad_sync:
            self._graph.begin_pass(model)

    def _has_parted(self, model: DistributedDataParallel) -> bool:
        """Leave tuning where steps cannot be tuned; return whether it is so."""
        if is_joining(model):
            self._steps.part("inside model.join() ranks take different numbers of steps, which cannot be tuned")
            return True
        if is_captured(model.device):
            self._steps.part(
                "the step is captured into a CUDA graph, which keeps the buckets that it was captured with"
            )
            return True
        return False

    def after_forward(self, model: DistributedDataParallel, output: object) -> None:
        """Have the synchronised backward pass noticed that may follow."""
        if not self._steps.is_following or not torch.is_grad_enabled() or not model.require_backward_grad_sync:
            return
        mode = model.training

        def note(_: torch.Tensor) -> None:
            self._backward_mode = mode

        for tensor in output_tensors(output):
            if tensor.grad_fn is not None:
                tensor.register_hook(note)


class ForwardHooks:
    """Hooks of the model, compiled or not. In a copy of the model, which is not tuned, they are inert."""

    def __init__(self, steps: StepsOfModel | None = None) -> None:
        """Pass on to the steps of a model, if there are any."""
        self._steps = steps

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def before(self, model: DistributedDataParallel, _: object) -> None:
        """Run before the forward pass."""
        if self._steps is not None:
            self._steps.before_forward(model)

    @torch.compiler.disable  # type: ignore[untyped-decorator]
    def after(self, model: DistributedDataParallel, _: object, output: object) -> None:
        """Run after the forward pass."""
        if self._steps is not None:
            self._steps.after_forward(model, output)
