# SPDX-License-Identifier: Apache-2.0
"""Averages a gradient over the ranks inside of a TensorFlow graph, by the operation that was built."""

import sys

import tensorflow as tf

import ringtune.tensorflow as hvd
from ringtune.tensorflow.graph_operations import graph_operations

hvd.init()
assert graph_operations().module is not None, "the operations are not found"


@tf.function  # type: ignore[untyped-decorator]
def gradient(value: tf.Tensor) -> tf.Tensor:
    """Return the mean over the ranks of the derivative of value times rank."""
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        tape.watch(value)
        loss = value * float(hvd.rank())
    return tape.gradient(loss, value)


assert (hvd.size() - 1) / 2 == float(gradient(tf.constant(3.0)))
sys.stdout.write(f"rank {hvd.rank()} of {hvd.size()} is right\n")
