# SPDX-License-Identifier: Apache-2.0
"""The TensorFlow front end, eagerly and in graphs."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

import ringtune.tensorflow
from tests.collectives.front_end import FrontEnd
from tests.collectives.oracle import Array


class TensorFlowFrontEnd(FrontEnd):
    """Tensors of TensorFlow; see `FrontEnd`."""

    hvd: Any = ringtune.tensorflow
    moved = ("complex64", "complex128")
    left_out = frozenset({"mixed"})  # no handles

    def tensor(self, values: Array, dtype: str) -> Any:
        """Return a tensor of a dtype with these values."""
        return tf.cast(tf.constant(values), dtype)

    def read(self, tensor: Any) -> tuple[str, Array]:
        """Return the name of a tensor's dtype, and its values as float64 or int64."""
        plain = tf.math.real(tensor) if tensor.dtype.is_complex else tensor
        return tensor.dtype.name, tf.cast(plain, tf.float64 if plain.dtype.is_floating else tf.int64).numpy()

    def gradient(self, call: Callable[[Any], Any], tensor: Any, upstream: Any) -> Any:
        """Return the gradient by the tensor that a call takes, where `upstream` is that by its result."""

        def of(tensor: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(tensor)
                result = call(tensor)
            return tape.gradient(result, tensor, output_gradients=upstream)

        return self._compiled(of)(tensor)


class TensorFlowGraph(TensorFlowFrontEnd):
    """The same in graphs, where an error is TensorFlow's."""

    left_out = frozenset({"mixed", "refusals"})

    def __init__(self) -> None:
        """Take a few dtypes and shapes: each is traced anew."""
        super().__init__(compiled=tf.function, is_brief=True)
