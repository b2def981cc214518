# SPDX-License-Identifier: Apache-2.0
"""Times a compiled training step of JAX with 14 gradients, whose collectives go to the engine in several ways, in turn.

`ringtune run -np 2 python -m benchmarks.engine.jax_step`, in the environment of the platforms.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ringtune.jax as hvd
from ringtune.jax import calls

LAYERS = 7  # number of layers, each with a weight and a bias: 14 gradients
Step = Callable[[Any, Any], Any]


def make_step(name: str, groups: int) -> Step:
    """Return a compiled step of gradient descent on all ranks.

    Args:
        name: Beginning of the gradients' names.
        groups: Number of groups in which the gradients travel.
    """
    optimizer = hvd.distributed(optax.sgd(0.01), name=name, num_groups=groups)

    def loss_of(params: Any, rows: Any) -> Any:
        for weight, bias in params:
            rows = jnp.tanh(rows @ weight + bias)
        return (rows**2).mean()

    def step(params: Any, rows: Any) -> Any:
        updates, _ = optimizer.update(jax.grad(loss_of)(params, rows), optimizer.init(params), params)
        return optax.apply_updates(params, updates)

    compiled: Step = jax.jit(step)
    return compiled


def timed(step: Step, params: Any, rows: Any, steps: int) -> float:
    """Return the seconds per step."""
    hvd.barrier()
    begin = time.perf_counter()
    for _ in range(steps):
        params = step(params, rows)
    jax.block_until_ready(params)
    return (time.perf_counter() - begin) / steps


def main() -> None:
    """Time all ways in turn and print medians, and ratios to the first way by rounds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--width", type=int, default=256, help="width of each layer (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=20, help="rounds of all ways (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=40, help="steps of one way in a round (default: %(default)s)")
    options = parser.parse_args()
    hvd.init()
    weight = jax.random.normal(jax.random.key(0), (options.width, options.width)) * 0.05
    params = [(weight, jnp.zeros(options.width)) for _ in range(LAYERS)]
    rows = jnp.ones((32, options.width))
    steps = {
        "asynchronous, one group": make_step("one", 1),
        "asynchronous, 14 calls": make_step("each", 2 * LAYERS),
        "through Python": make_step("python", 1),
    }
    with mock.patch.object(calls, "are_asynchronous", return_value=False):
        jax.block_until_ready(steps["through Python"](params, rows))
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for step in steps.values():
        timed(step, params, rows, 3)
    for _ in range(options.rounds):
        for name, step in steps.items():
            seconds[name].append(timed(step, params, rows, options.steps))
    if hvd.rank() == 0:
        print_table(seconds)


def print_table(seconds: dict[str, list[float]]) -> None:
    """Print the median milliseconds of each way, and the ratio to the first by rounds: median, 5 % and 95 %."""
    first = np.array(next(iter(seconds.values())))
    for name, measured in seconds.items():
        low, middle, high = np.percentile(np.array(measured) / first, (5, 50, 95))
        line = f"{name:26} {1e3 * np.median(measured):8.2f} ms a step   ratio {middle:5.2f} ({low:.2f} ... {high:.2f})"
        sys.stdout.write(f"{line}\n")


if __name__ == "__main__":
    main()
