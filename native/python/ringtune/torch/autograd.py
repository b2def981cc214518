# SPDX-License-Identifier: Apache-2.0
"""Collectives as nodes of autograd's graph: one `Function` for all of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import torch

Tensors = tuple[torch.Tensor, ...]


class Collective(Protocol):
    """One call of a collective: its way forward, and back for the gradients."""

    def forward(self, tensors: Tensors) -> Tensors:
        """Run it and return the results."""

    def backward(self, gradients: Tensors) -> Tensors:
        """Return the gradients of the inputs, given those of the results; itself differentiable."""


def apply(collective: Collective, tensors: Sequence[torch.Tensor]) -> Tensors:
    """Run a collective; where an input requires a gradient, the results have one."""
    inputs = tuple(tensors)
    if torch.is_grad_enabled() and any(isinstance(tensor, torch.Tensor) and tensor.requires_grad for tensor in inputs):
        node: Any = _Node  # torch leaves `apply` without annotations
        results: Tensors = node.apply(collective, *inputs)
        return results
    return collective.forward(inputs)


class _Node(torch.autograd.Function):
    """Lets a collective take part in backward."""

    @staticmethod
    def forward(ctx: Any, collective: Collective, *tensors: torch.Tensor) -> Tensors:
        ctx.collective = collective
        return collective.forward(tensors)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        return (None, *ctx.collective.backward(gradients))
