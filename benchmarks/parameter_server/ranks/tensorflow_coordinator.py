# SPDX-License-Identifier: Apache-2.0
"""The coordinator of TensorFlow's `ParameterServerStrategy`: trains the comparison's model, asynchronously.

Arguments: the cluster as JSON, and the trial as JSON. It prints a line `begin` at the start of the measured steps, and
a JSON object with seconds, gradients and losses at their end; a line of standard input answers each, so that the caller
can read the links' counters between. Needs TensorFlow and no torch.
"""

import itertools
import json
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from tensorflow.python.data.experimental.ops import testing

PIXELS, CLASSES, BRIGHTEST = 64, 10, 16
TRIALS_PER_WORKER = 8
"""Steps per worker in the warm-up, which also says how many steps fill the time."""


class Perceptron:
    """Two hidden layers with PyTorch's default initial values, every variable divided among the servers."""

    def __init__(self, width: int, seed: int) -> None:
        random = np.random.default_rng(seed)
        extents = (PIXELS, width, width, CLASSES)
        self.weights: list[Any] = []
        for inputs, outputs in itertools.pairwise(extents):
            bound = inputs**-0.5
            self.weights.append(_variable(random.uniform(-bound, bound, (inputs, outputs))))
            self.weights.append(_variable(random.uniform(-bound, bound, (outputs,))))

    def loss(self, values: list[Any], images: Any, labels: Any) -> Any:
        """Return the mean loss under these values of the variables."""
        hidden = images
        for layer in range(0, len(values), 2):
            hidden = tf.matmul(hidden, values[layer]) + values[layer + 1]
            hidden = tf.nn.relu(hidden) if layer + 2 < len(values) else hidden
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=hidden))


def _variable(values: Any) -> Any:
    return tf.Variable(values.astype(np.float32))


def dataset_of(images: Any, labels: Any, trial: dict[str, Any]) -> Any:
    """Return a worker's endless batches, each of which takes the trial's computing time to come."""
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    data = data.shuffle(len(labels)).repeat().batch(trial["batch_size"], drop_remainder=True)
    options = tf.data.Options()
    options.autotune.enabled = False
    options.experimental_optimization.inject_prefetch = False  # a prefetched batch would not be waited for
    return data.with_options(options).apply(testing.sleep(int(trial["compute_ms"] * 1000)))


class Training:
    """The coordinator's side of a trial."""

    def __init__(self, cluster: dict[str, Any], trial: dict[str, Any]) -> None:
        resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
        partitioner = tf.distribute.experimental.partitioners.FixedShardsPartitioner(trial["servers"])
        strategy = tf.distribute.ParameterServerStrategy(resolver, variable_partitioner=partitioner)
        self._coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        images, labels = load_digits(return_X_y=True)
        self._images, self._labels = (images / BRIGHTEST).astype(np.float32), labels.astype(np.int32)
        with strategy.scope():
            self._model = Perceptron(trial["width"], trial["seed"])
        model, rate = self._model, trial["learning_rate"]

        def step(batches: Any) -> None:
            batch_images, batch_labels = next(batches)

            def gradient_step() -> None:
                values = [tf.convert_to_tensor(weight) for weight in model.weights]
                with tf.GradientTape() as tape:
                    tape.watch(values)
                    loss = model.loss(values, batch_images, batch_labels)
                for weight, gradient in zip(model.weights, tape.gradient(loss, values), strict=True):
                    apply_gradient(weight, gradient, rate)

            strategy.run(gradient_step)

        self._step = tf.function(step)
        per_worker = self._coordinator.create_per_worker_dataset(lambda: dataset_of(self._images, self._labels, trial))
        self._batches = iter(per_worker)

    def run(self, steps: int) -> float:
        """Have the workers do so many steps; return the seconds they took."""
        begun_s = time.monotonic()
        for _ in range(steps):
            self._coordinator.schedule(self._step, args=(self._batches,))
        self._coordinator.join()
        return time.monotonic() - begun_s

    def loss(self) -> float:
        """Return the mean loss over all data."""
        values = [tf.convert_to_tensor(weight) for weight in self._model.weights]
        return float(self._model.loss(values, self._images, self._labels))


def apply_gradient(weight: Any, gradient: Any, rate: float) -> None:
    """Subtract a gradient from a variable, part by part where it is divided among servers."""
    parts = getattr(weight, "variables", [weight])
    sizes = [part.shape[0] for part in parts]
    for part, share in zip(parts, tf.split(gradient, sizes), strict=True):
        part.assign_sub(rate * share)


def main() -> None:
    """Train for the trial's time."""
    cluster, trial = json.loads(sys.argv[1]), json.loads(sys.argv[2])
    tf.config.threading.set_intra_op_parallelism_threads(1)
    training = Training(cluster, trial)
    warm_up = TRIALS_PER_WORKER * trial["workers"]
    training.run(warm_up)
    took_s = training.run(warm_up)
    gradients = max(warm_up, round(warm_up * trial["seconds"] / took_s))
    before = training.loss()
    print("begin", flush=True)
    sys.stdin.readline()
    seconds = training.run(gradients)
    found = {"seconds": seconds, "gradients": gradients, "losses": [before, training.loss()]}
    print(json.dumps(found), flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    main()
