# SPDX-License-Identifier: Apache-2.0
"""Collectives that gradients go through: one `tf.custom_gradient` for all of them."""

from collections.abc import Sequence
from typing import Any, Protocol

import tensorflow as tf

Tensors = Sequence[Any]


class Collective(Protocol):
    """One call of a collective: its way forward, and back for the gradients."""

    def forward(self, tensors: Tensors) -> tuple[Tensors, Any]:
        """Run it; return the results, and the values that `backward` needs."""

    def backward(self, saved: Any, gradients: Tensors) -> Tensors:
        """Return the gradients of the inputs, given those of the results."""


def apply(collective: Collective, values: Sequence[Any]) -> list[Any]:
    """Run a collective on tensors or values convertible to them; results have gradients where inputs are watched."""

    def node(*tensors: Any) -> Any:
        results, saved = collective.forward(tensors)

        def gradient(*gradients: Any) -> Any:
            return collective.backward(saved, gradients)

        return tuple(results), gradient

    inputs = [tf.convert_to_tensor(value) for value in values]
    return list(tf.custom_gradient(node)(*inputs)) if inputs else []
