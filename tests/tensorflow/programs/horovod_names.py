# SPDX-License-Identifier: Apache-2.0
"""Walks Horovod's public names, and checks those of TensorFlow and Keras that have no counterpart in torch."""

import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import ringtune.keras as hvd_keras
import ringtune.tensorflow as hvd
import ringtune.tensorflow.keras as hvd_tensorflow_keras
from ringtune.settings.horovod_gaps import GAPS
from tests.integration.plain_rank import expect_error, run_cases
from tests.unit.ringtune.settings.horovod_public_names import CALLBACKS, NAMES


def case_names() -> None:
    """Each name is an attribute, or asking for it raises the documented error."""
    for front_end, module in (("tensorflow", hvd), ("keras", hvd_keras)):
        for name in NAMES[front_end]:
            if name in GAPS[front_end]:
                expect_error(AttributeError, GAPS[front_end][name], partial(getattr, module, name))
            else:
                assert hasattr(module, name), (front_end, name)
    for name in CALLBACKS:
        assert hasattr(hvd_keras.callbacks, name), name
    assert hvd_keras.DistributedOptimizer is hvd_tensorflow_keras.DistributedOptimizer
    assert not any(ask() for ask in (hvd_keras.gloo_built, hvd_keras.nccl_built, hvd_keras.cuda_built))


def case_facts() -> None:
    """A rank's place, eagerly and when a graph runs, of all ranks and of a set."""
    part = hvd.add_process_set([0])
    number = part.process_set_id or 0

    def facts() -> list[Any]:
        of_all = [hvd.rank_op(), hvd.local_rank_op(), hvd.size_op(), hvd.local_size_op(), hvd.process_set_included_op()]
        return [*of_all, hvd.size_op(number), hvd.process_set_included_op(number)]

    rank, size = hvd.rank(), hvd.size()
    for ask in (facts, tf.function(facts)):
        assert [rank, rank, size, size, 1, 1, int(rank == 0)] == [int(fact) for fact in ask()]
    expect_error(ValueError, "there is no process set 99", lambda: hvd.size_op(99))
    hvd.remove_process_set(part)
    assert {"lr": 0.5} == hvd.broadcast_object_fn(root_rank=0)({"lr": 0.5 + rank})


def case_sync_batch_norm() -> None:
    """Results, gradients and moving statistics are those of one process with all rows, with a mask and without."""
    random = np.random.default_rng(7)
    rank, counts = hvd.rank(), [2 + other for other in range(hvd.size())]
    own = slice(sum(counts[:rank]), sum(counts[: rank + 1]))
    values = random.normal(3.0, 2.0, (sum(counts), 5, 3)).astype(np.float32)
    upstream = random.normal(size=values.shape).astype(np.float32)
    masks = (None, random.integers(0, 2, values.shape[:2]).astype(bool))
    for mask in masks:
        joint, alone = hvd.SyncBatchNormalization(momentum=0.5), keras.layers.BatchNormalization(momentum=0.5)
        expected, expected_gradients = _run(alone, values, upstream, mask)
        got, gradients = _run(joint, values[own], upstream[own], None if mask is None else mask[own])
        _assert_close(expected[own], got)
        _assert_close(expected_gradients[0][own], gradients[0])
        for of_all, of_own in zip(expected_gradients[1:], gradients[1:], strict=True):
            _assert_close(of_all, hvd.allreduce(of_own, op=hvd.Sum))
        _assert_close(alone.moving_mean, joint.moving_mean)
        _assert_close(alone.moving_variance, joint.moving_variance)
    expect_error(ValueError, "fused=True", lambda: hvd.SyncBatchNormalization(fused=True))


def case_partial() -> None:
    """Gradients of local layers stay on their rank, divided by the number of ranks unless told otherwise."""
    rank, size = hvd.rank(), hvd.size()
    model = keras.Sequential([keras.layers.Input((2,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    inputs = tf.constant([[1.0, 2.0]]) * (rank + 1)
    hvd.broadcast_variables(model.weights, root_rank=0)
    with tf.GradientTape(persistent=True) as tape:
        loss = tf.reduce_sum(model(inputs) ** 2)
    own = tape.gradient(loss, model.trainable_variables)
    for is_scaled, divisor in ((True, size), (False, 1)):
        wrapped = hvd.PartialDistributedGradientTape(
            tape, local_layers=model.layers[0], scale_local_gradients=is_scaled
        )
        gradients = wrapped.gradient(loss, model.trainable_variables)
        expected = [own[0] / divisor, own[1] / divisor, hvd.allreduce(own[2]), hvd.allreduce(own[3])]
        for wanted, gradient in zip(expected, gradients, strict=True):
            _assert_close(wanted, gradient)
        before = [variable.numpy() for variable in model.trainable_variables]
        optimizer = hvd_keras.PartialDistributedOptimizer(
            keras.optimizers.SGD(0.5), local_layers=[model.layers[0]], scale_local_gradients=is_scaled
        )
        optimizer.apply_gradients(zip(own, model.trainable_variables, strict=True))
        for start, wanted, variable in zip(before, expected, model.trainable_variables, strict=True):
            _assert_close(start - 0.5 * wanted, variable)
            variable.assign(start)
    expect_error(TypeError, "layers of Keras", lambda: hvd.PartialDistributedGradientTape(tape, local_layers=[1]))


def case_local_start() -> None:
    """The broadcast at the start of training leaves local variables alone, and brings all others to the root's."""
    rank = hvd.rank()
    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1), keras.layers.Dense(1)])
    local, joint = model.layers
    for weight in model.trainable_variables:
        weight.assign(tf.ones_like(weight) * (rank + 1.0))
    model.compile(optimizer=keras.optimizers.SGD(0.0), loss="mse")
    start = hvd_keras.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=local.trainable_variables)
    data = np.ones((2, 1), np.float32)
    model.fit(data, data, epochs=1, verbose=0, callbacks=[start])
    assert [rank + 1.0, rank + 1.0] == [float(tf.squeeze(weight)) for weight in local.trainable_variables]
    assert [1.0, 1.0] == [float(tf.squeeze(weight)) for weight in joint.trainable_variables]


def case_best_model() -> None:
    """The best epoch's model is saved, by rank 0 alone."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "best.keras"
        model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
        model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
        callback = hvd_keras.callbacks.BestModelCheckpoint(monitor="loss", filepath=str(place))
        data = np.ones((4, 1), np.float32)
        model.fit(data, data, epochs=2, verbose=0, callbacks=[callback])
        assert place.exists() == (hvd.rank() == 0)


def _run(layer: Any, values: Any, upstream: Any, mask: Any) -> tuple[Any, list[Any]]:
    """Return a layer's result in training, and the gradients of values, scale and offset, computed in a graph."""
    layer.build(values.shape)

    def step(batch: Any) -> tuple[Any, list[Any]]:
        with tf.GradientTape() as tape:
            tape.watch(batch)
            result = layer(batch, training=True, mask=mask)
            loss = tf.reduce_sum(result * upstream)
        return result, tape.gradient(loss, [batch, layer.gamma.value, layer.beta.value])

    result, gradients = tf.function(step)(tf.constant(values))
    return result, gradients


def _assert_close(expected: Any, got: Any) -> None:
    assert np.allclose(np.asarray(expected), np.asarray(got), 1e-4, 1e-4), (expected, got)


hvd.init()
run_cases(globals(), sys.argv[1:])
hvd.shutdown()
