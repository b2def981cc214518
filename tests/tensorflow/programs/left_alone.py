# SPDX-License-Identifier: Apache-2.0
"""Trains on two ranks, of which the second leaves in the middle of the first epoch. Argument: the way of gradients."""

import sys
from typing import Any

import keras
import numpy as np

import ringtune.keras as hvd
from tests.integration.plain_rank import say
from tests.tensorflow.ways import choose_way


def leave(batch: int, logs: dict[str, Any]) -> None:
    """Leave the world after the third batch, on rank 1."""
    del logs
    if batch == 2 and hvd.rank() == 1:
        hvd.shutdown()
        raise SystemExit(0)


def main() -> None:
    """Train until the other rank is missed."""
    hvd.init()
    choose_way(sys.argv[1], hvd.rank())
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
    model.compile(optimizer=hvd.DistributedOptimizer(keras.optimizers.SGD()), loss="mse")
    spy = keras.callbacks.LambdaCallback(on_train_batch_end=leave)
    try:
        model.fit(np.ones((64, 4)), np.ones((64, 1)), batch_size=4, verbose=0, callbacks=[spy])
    except Exception as error:  # noqa: BLE001  (which one it is, the test asks)
        say(f"{type(error).__name__}: {error}")


main()
