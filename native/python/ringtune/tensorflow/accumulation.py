# SPDX-License-Identifier: Apache-2.0
"""Adds gradients up on this rank over several backward passes, before they are combined over the ranks."""

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf


class GradientAccumulator:
    """Sums of the gradients of one optimizer, in variables of their own that are not saved with the optimizer's."""

    def __init__(self, passes: int, *, is_averaged: bool) -> None:
        """Begin without sums.

        Args:
            passes: Number of passes after which the sums are used.
            is_averaged: Whether the sums are divided by `passes`.
        """
        self._passes = passes
        self._is_averaged = is_averaged
        self._sums: list[Any] = []  # variables; None where there is no gradient
        self._seen: Any = None  # a variable: passes since the sums were used

    def add(self, gradients: Sequence[Any], use: Callable[[list[Any]], None]) -> None:
        """Add the gradients of a pass, and on the last one use the sums and begin anew.

        Args:
            gradients: Tensors, `tf.IndexedSlices`, or None in the same places each time.
            use: Called with the sums, as a branch of a conditional in a graph.
        """
        if self._seen is None:
            self._make_variables(gradients)
        seen = self._seen
        for total, gradient in zip(self._sums, gradients, strict=True):
            if total is not None:
                total.assign_add(tf.convert_to_tensor(gradient))
        seen.assign_add(1)

        def finish() -> bool:
            divisor = self._passes if self._is_averaged else 1
            use([None if total is None else total / tf.cast(divisor, total.dtype) for total in self._sums])
            for variable in (seen, *self._sums):
                if variable is not None:
                    variable.assign(tf.zeros_like(variable))
            return True

        tf.cond(seen >= self._passes, finish, lambda: False)

    def _make_variables(self, gradients: Sequence[Any]) -> None:
        with tf.init_scope():  # outside of the graph that may be made just now
            self._seen = tf.Variable(0, trainable=False, dtype=tf.int64)
            self._sums = [
                None if gradient is None else tf.Variable(tf.zeros(gradient.shape, gradient.dtype), trainable=False)
                for gradient in gradients
            ]
