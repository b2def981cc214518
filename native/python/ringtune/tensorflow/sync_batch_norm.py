# SPDX-License-Identifier: Apache-2.0
"""Batch normalization for Keras whose statistics are those of all ranks' batches together."""

from typing import Any

import keras
import tensorflow as tf

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Sum, world_of

from .reductions import allreduce


class SyncBatchNormalization(keras.layers.BatchNormalization):  # type: ignore[misc]  # Keras has no types
    """Stands for `keras.layers.BatchNormalization`, with statistics over the ranks while training.

    Forward and backward give the result of a single process with the whole batch, up to rounding. Ranks may have
    batches of different sizes; layers must run in one order on all ranks. A saved model names this class: give
    `custom_objects={"SyncBatchNormalization": SyncBatchNormalization}` to load it.
    """

    def __init__(
        self,
        fused: bool | None = False,  # noqa: FBT002  (Horovod's signature)
        process_set: ProcessSet = global_process_set,
        **options: Any,
    ) -> None:
        """Make a layer.

        Args:
            fused: Horovod's; false or None, for fused kernels cannot include other ranks.
            process_set: Ranks that take part statistics are taken; a loaded model takes them over all.
            options: Those of `keras.layers.BatchNormalization`.

        Raises:
            ConfigError: If `fused` is true.
        """
        if fused:
            raise ConfigError("SyncBatchNormalization(fused=True) is not possible; leave it out")
        super().__init__(**options)
        self._process_set = process_set

    def _moments(self, inputs: Any, mask: Any) -> tuple[Any, Any]:
        """Return mean and variance of each channel over the batches of all ranks; called by Keras while training."""
        if world_of(self._process_set).size == 1:
            moments: tuple[Any, Any] = super()._moments(inputs, mask)
            return moments
        axes = self._reduction_axes
        counted = tf.ones_like(inputs, bool)
        if mask is not None:  # of all dimensions but the last
            counted = tf.broadcast_to(tf.cast(mask, bool)[..., tf.newaxis], tf.shape(inputs))
        nothing = tf.zeros_like(inputs)
        own = [tf.reduce_sum(tf.where(counted, inputs, nothing), axes)]
        own += [tf.reduce_sum(tf.cast(counted, inputs.dtype), axes)]
        total, count = tf.unstack(self._summed(tf.stack(own)))
        count = tf.maximum(count, 1.0)
        mean = total / count
        shape = [1 if axis in axes else -1 for axis in range(len(inputs.shape))]
        difference = tf.where(counted, inputs - tf.reshape(mean, shape), nothing)
        return mean, self._summed(tf.reduce_sum(tf.square(difference), axes)) / count

    def _summed(self, tensor: Any) -> Any:
        return allreduce(tensor, op=Sum, process_set=self._process_set)
