# SPDX-License-Identifier: Apache-2.0
"""Trains elastically with Keras or with a tape in a graph, and compares its weights.

All ranks have the same batches, so that the weights after a number of steps do not depend on the ranks. Arguments:
`fit` or `tape`; a folder for the file `steps`, to which rank 0 adds a byte for each step; the number of ranks without
which the training does not end; the number of steps after which this process joins.
"""

import sys
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

import ringtune.keras
import ringtune.tensorflow as hvd
from tests.integration.plain_rank import say
from tests.tensorflow.step_file import count_step, wait_for_steps

EPOCHS, STEPS, BATCH, STEP_S = 5, 8, 4, 0.02
INPUTS = np.random.default_rng(1).standard_normal((STEPS * BATCH, 4)).astype(np.float32)
TARGETS = INPUTS.sum(axis=1, keepdims=True)


def new_model() -> Any:
    """Return a model with the same weights in every process."""
    keras.utils.set_random_seed(7)
    layers = [keras.Input((4,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)]
    return keras.Sequential(layers)


class CountSteps(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Counts the steps of rank 0, and takes some time."""

    def __init__(self, steps: Path) -> None:
        super().__init__()
        self._steps = steps

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Count."""
        del batch, logs
        count(self._steps)


def count(steps: Path) -> None:
    """Count a step of rank 0, and take some time."""
    if hvd.rank() == 0:
        count_step(steps)
    time.sleep(STEP_S)


def is_over(epochs: int, least_ranks: int) -> bool:
    """Return whether the training ends after so many epochs; the same on all ranks."""
    return bool(epochs >= EPOCHS and hvd.size() >= least_ranks)


def fit(steps: Path, least_ranks: int) -> Any:
    """Train by `fit`, an epoch a call, and return the state."""
    elastic = ringtune.keras.elastic
    model = new_model()
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.Adam(0.05)), loss="mse")
    state = elastic.KerasState(model, batch=0, epoch=0)
    callbacks = [
        elastic.UpdateBatchStateCallback(state),
        elastic.UpdateEpochStateCallback(state),
        CountSteps(steps),
        elastic.CommitStateCallback(state, batches_per_commit=3),
    ]

    @elastic.run
    def train(state: Any) -> None:
        while not is_over(state.epoch, least_ranks):
            if state.batch == STEPS:  # the last batch was committed, the end of the epoch was not
                state.epoch, state.batch = state.epoch + 1, 0
                continue
            rest = slice(state.batch * BATCH, None)
            options = {"batch_size": BATCH, "shuffle": False, "verbose": 0}
            state.model.fit(INPUTS[rest], TARGETS[rest], callbacks=callbacks, **options)

    train(state)
    return state


def tape(steps: Path, least_ranks: int) -> Any:
    """Train by a tape in a graph, and return the state."""
    model = new_model()
    optimizer = keras.optimizers.Adam(0.05)
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, step=0, epoch=0)

    @tf.function  # type: ignore[untyped-decorator]
    def train_step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as plain:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - targets))
        gradients = hvd.DistributedGradientTape(plain).gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))

    @hvd.elastic.run
    def train(state: Any) -> None:
        while not is_over(state.epoch, least_ranks):
            rows = slice(state.step * BATCH, (state.step + 1) * BATCH)
            train_step(tf.constant(INPUTS[rows]), tf.constant(TARGETS[rows]))
            epochs, state.step = divmod(state.step + 1, STEPS)
            state.epoch += epochs
            count(steps)
            if state.step % 3 == 0:
                state.commit()
            else:
                state.check_host_updates()

    train(state)
    return state


def alone(epochs: int) -> list[Any]:
    """Return the weights of a training without other ranks and without changes."""
    model = new_model()
    model.compile(optimizer=keras.optimizers.Adam(0.05), loss="mse")
    model.fit(INPUTS, TARGETS, batch_size=BATCH, shuffle=False, epochs=epochs, verbose=0)
    weights: list[Any] = model.get_weights()
    return weights


def main() -> None:
    """Train, compare with a training alone, and report."""
    way, folder, least_ranks, first_step = sys.argv[1:]
    steps = Path(folder) / "steps"
    wait_for_steps(steps, int(first_step))
    hvd.init()
    state = {"fit": fit, "tape": tape}[way](steps, int(least_ranks))
    for found, expected in zip(state.model.get_weights(), alone(state.epoch), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    say(f"rank {hvd.rank()} of {hvd.size()}: right")


main()
