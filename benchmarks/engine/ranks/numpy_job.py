# SPDX-License-Identifier: Apache-2.0
"""A data-parallel job without torch: 15 layers of numpy, 30 gradients of 3.8 MiB, a step of about 20 ms.

Any launcher can start it. Rank 0 prints one line of JSON: the median step time, and the loss after the last step, whose
bits are equal wherever the ranks did the same.
"""

import argparse
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np
import numpy.typing as npt

import ringtune.arrays as hvd

LAYERS = 15
WIDTH = 256
BATCH_SIZE = 64
LEARNING_RATE = 0.01
WARMUP_STEPS = 20

Array = npt.NDArray[np.float32]
Layer = tuple[Array, Array]


def make_layers() -> list[Layer]:
    """Return each layer's weight and bias, equal on all ranks."""
    generator = np.random.default_rng(0)
    scale = np.float32(WIDTH**-0.5)
    return [
        (generator.standard_normal((WIDTH, WIDTH), np.float32) * scale, np.zeros(WIDTH, np.float32))
        for _ in range(LAYERS)
    ]


def train_step(layers: Sequence[Layer], inputs: Array, targets: Array) -> float:
    """Train on this rank's batch and return its loss; gradients are submitted as backward propagation makes them."""
    activations = [inputs]
    for weight, bias in layers:
        activations.append(np.tanh(activations[-1] @ weight + bias))
    error = activations[-1] - targets
    delta = error / np.float32(BATCH_SIZE)
    submitted = []
    for number in reversed(range(LAYERS)):
        weight, bias = layers[number]
        delta = delta * (1 - activations[number + 1] ** 2)
        gradients = (activations[number].T @ delta, delta.sum(axis=0))
        for parameter, gradient, kind in zip((weight, bias), gradients, ("weight", "bias"), strict=True):
            submitted.append((parameter, hvd.allreduce_async(gradient, name=f"{number}.{kind}")))
        delta = delta @ weight.T
    for parameter, handle in submitted:
        np.subtract(parameter, np.float32(LEARNING_RATE) * handle.wait(), out=parameter)
    hvd.mark_step()
    return float(np.mean(error**2))


def train(steps: int) -> tuple[float, float]:
    """Return the median step time in milliseconds, and the last loss."""
    layers = make_layers()
    generator = np.random.default_rng(1 + hvd.rank())
    inputs, targets = generator.uniform(-1, 1, (2, BATCH_SIZE, WIDTH)).astype(np.float32)
    times_s, loss = [], 0.0
    for _ in range(WARMUP_STEPS + steps):
        start_s = time.perf_counter()
        loss = train_step(layers, inputs, targets)
        times_s.append(time.perf_counter() - start_s)
    return median(times_s[WARMUP_STEPS:]) * 1e3, loss


def bind_to_core(local_rank: int) -> None:
    """Give this rank, the engine's threads included, a core of its own: launches then differ half as much by chance."""
    cores = sorted(os.sched_getaffinity(0))
    for thread in Path("/proc/self/task").iterdir():
        os.sched_setaffinity(int(thread.name), {cores[local_rank % len(cores)]})


def main() -> None:
    """Train on every rank; report on rank 0."""
    parser = argparse.ArgumentParser(description="A data-parallel job in numpy; see launchers.")
    parser.add_argument("--ranks", type=int, required=True, help="refuse to train with another number of them")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    hvd.init()
    if hvd.size() != arguments.ranks:  # alone, a rank would be quicker
        raise SystemExit(f"{hvd.size()} ranks have met, not {arguments.ranks}; check how the job was started")
    bind_to_core(hvd.local_rank())
    step_ms, loss = train(arguments.steps)
    if hvd.rank() == 0:
        print(json.dumps({"step_ms": step_ms, "loss": loss}), flush=True)
    hvd.shutdown()


if __name__ == "__main__":
    main()
