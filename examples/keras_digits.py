# SPDX-License-Identifier: Apache-2.0
"""Learn to read scikit-learn's handwritten digits with Keras on TensorFlow, data-parallel.

It is the program of Horovod's Keras tutorial with its import changed. Run it alone or on several ranks; with
`AUTOTUNE=1` the engine tunes itself while it trains:

    python examples/keras_digits.py
    AUTOTUNE=1 ringtune run -np 2 python examples/keras_digits.py --train-for-tuner

`make setup-tensorflow` makes an environment for it.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

import ringtune.keras as hvd

TEST_IMAGES = 360  # out of 1,797
WIDTH, DEPTH = 96, 24  # 0.2 million parameters in 102 tensors


class Clock(keras.callbacks.Callback):  # type: ignore[misc]  # Keras has no types
    """Counts steps and their time, and ends training that goes on for the tuner alone.

    Attributes:
        steps: Batches of this rank.
        seconds: Since the start of training.
    """

    def __init__(self, epochs: int, *, waits_for_tuner: bool) -> None:
        """Set the budget.

        Args:
            epochs: Number of epochs that are trained in any case.
            waits_for_tuner: Whether training goes on until the tuner has finished.
        """
        super().__init__()
        self._epochs = epochs
        self._waits_for_tuner = waits_for_tuner
        self._started = time.monotonic()
        self.steps = 0
        self.seconds = 0.0

    def on_train_batch_end(self, batch: int, logs: dict[str, Any] | None = None) -> None:
        """Count a step."""
        del batch, logs
        self.steps += 1

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """End training, on all ranks after the same epoch."""
        del logs
        self.seconds = time.monotonic() - self._started
        is_tuned = not self._waits_for_tuner or hvd.tuning_finished()
        self.model.stop_training = is_tuned and epoch + 1 >= self._epochs


def residual_mlp(width: int, depth: int) -> keras.Model:
    """Return a network of `depth` residual blocks: (batch, 64) pixels to (batch, 10) logits."""
    pixels = keras.Input((64,))
    features = keras.layers.Dense(width)(pixels)
    for _ in range(depth):
        normalized = keras.layers.LayerNormalization()(features)
        features = features + keras.layers.Dense(width, activation="relu")(normalized)
    logits = keras.layers.Dense(10)(keras.layers.LayerNormalization()(features))
    return keras.Model(pixels, logits)


def parse_arguments() -> argparse.Namespace:
    """Return the command line's flags."""
    parser = argparse.ArgumentParser(description="Learn to read handwritten digits with Keras, data-parallel.")
    parser.add_argument("--epochs", type=int, default=10, help="passes over the training data")
    parser.add_argument("--batch-size", type=int, default=16, help="images per rank and step")
    parser.add_argument(
        "--learning-rate", type=float, default=0.02, help="learning rate of one rank; ranks multiply it"
    )
    parser.add_argument("--width", type=int, default=WIDTH, help="features of the residual MLP")
    parser.add_argument("--depth", type=int, default=DEPTH, help="blocks of the residual MLP")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1, help="TensorFlow threads per rank")
    parser.add_argument("--train-for-tuner", action="store_true",
                        help="keep training until the tuner has finished")  # fmt: skip
    parser.add_argument("--report", type=Path, metavar="FILE", help="rank 0 writes what the job came to as JSON")
    return parser.parse_args()


def main() -> None:
    """Train on this rank; rank 0 reports."""
    arguments = parse_arguments()
    tf.config.threading.set_intra_op_parallelism_threads(arguments.threads)
    hvd.init()
    keras.utils.set_random_seed(arguments.seed)
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    images, labels = (images[order] / 16).astype(np.float32), labels[order].astype(np.int32)
    images, test_images = images[TEST_IMAGES:], images[:TEST_IMAGES]
    labels, test_labels = labels[TEST_IMAGES:], labels[:TEST_IMAGES]
    steps_per_epoch = len(labels) // (arguments.batch_size * hvd.size())
    data = tf.data.Dataset.from_tensor_slices((images, labels)).shard(hvd.size(), hvd.rank())
    data = data.cache().shuffle(len(labels), seed=arguments.seed).repeat().batch(arguments.batch_size)

    model = residual_mlp(arguments.width, arguments.depth)
    scaled_rate = arguments.learning_rate * hvd.size()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(scaled_rate, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    clock = Clock(arguments.epochs, waits_for_tuner=arguments.train_for_tuner)
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(scaled_rate, warmup_epochs=2),
        clock,
    ]
    epochs = 1_000_000 if arguments.train_for_tuner else arguments.epochs
    history = model.fit(data, steps_per_epoch=steps_per_epoch, epochs=epochs, callbacks=callbacks, verbose=0)

    if hvd.rank() == 0:
        _, accuracy = model.evaluate(test_images, test_labels, verbose=0)
        report = {
            "example": "keras_digits",
            "world_size": hvd.size(),
            "tensors": len(model.trainable_variables),
            "steps": clock.steps,
            "seconds": clock.seconds,
            "tuning_finished": hvd.tuning_finished(),
            "metrics": {"accuracy": accuracy, "train_accuracy": history.history["accuracy"][-1]},
        }
        print(f"keras_digits: {hvd.size()} ranks, {report['tensors']} tensors, {clock.steps} steps in "
              f"{clock.seconds:.1f} s ({clock.steps / clock.seconds:.1f}/s), accuracy {accuracy:.4f}")  # fmt: skip
        if arguments.report is not None:
            arguments.report.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    hvd.shutdown()


if __name__ == "__main__":
    main()
