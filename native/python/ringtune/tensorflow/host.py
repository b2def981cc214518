# SPDX-License-Identifier: Apache-2.0
"""The bridge between TensorFlow and the engine: a Python function on numpy arrays as a node of any graph.

`tf.numpy_function` runs eagerly and inside `tf.function`; it is stateful, so that nodes run in the order of the program
and none is left out. XLA cannot compile it.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ringtune.arrays import Array
from ringtune.errors import ConfigError

HostFunction = Callable[[list[Array]], Sequence[Array]]
"""Takes the arrays of the tensors and returns those of the results. It must not write into its arguments."""


def call_host(function: HostFunction, tensors: Sequence[Any], specs: Sequence[tf.TensorSpec]) -> list[Any]:
    """Run a function on the host when the graph comes to it, or now where TensorFlow runs eagerly.

    Args:
        function: May block; the interpreter goes on.
        tensors: Its arguments.
        specs: Dtype and static shape of each result.

    Returns:
        The results as tensors.

    Raises:
        ConfigError: Inside a function that XLA compiles.
    """
    check_not_compiled()
    if tf.executing_eagerly():  # where `numpy_function` takes no bfloat16 without a dimension
        arrays = function([np.asarray(tensor.numpy()) for tensor in tensors])
        return [tf.convert_to_tensor(array, spec.dtype) for array, spec in zip(arrays, specs, strict=True)]
    dtypes = [spec.dtype for spec in specs]
    returned = tf.numpy_function(lambda *arrays: list(function(list(arrays))), list(tensors), dtypes, stateful=True)
    results = tf.nest.flatten(returned) if specs else []  # one comes without a list
    return [tf.ensure_shape(result, spec.shape) for result, spec in zip(results, specs, strict=True)]


def check_not_compiled() -> None:
    """Refuse to become part of a function that XLA compiles.

    Raises:
        ConfigError: If `jit_compile=True` holds here.
    """
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    while graph is not None:
        context = graph._get_control_flow_context()  # noqa: SLF001  (TensorFlow has no public question for it)
        if context is not None and context.IsXLAContext():
            raise ConfigError(
                "a collective cannot be part of a function that XLA compiles; use jit_compile=False in model.compile() "
                "and in the tf.function around the training step"
            )
        graph = getattr(graph, "outer_graph", None)


def spec_like(tensor: Any) -> tf.TensorSpec:
    """Return the spec of a result that has a tensor's dtype and shape."""
    return tf.TensorSpec(tensor.shape, tensor.dtype)


def rows_like(tensor: Any) -> tf.TensorSpec:
    """Return the spec of a result that has any number of a tensor's rows."""
    if tensor.shape.rank is None:
        return tf.TensorSpec(None, tensor.dtype)
    return tf.TensorSpec([None, *tensor.shape[1:]], tensor.dtype)
