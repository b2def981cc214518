# SPDX-License-Identifier: Apache-2.0
"""Trains a network of JAX and Optax on scikit-learn's digits: `AUTOTUNE=1 ringtune run -np 2 python jax_digits.py`."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import optax
from sklearn.datasets import load_digits

import ringtune.jax as hvd

ROWS = 32  # batch of one rank
EPOCHS = 20
WIDTHS = (64, 256, 256, 10)

hvd.init()


def new_params(key: jax.Array) -> list[dict[str, jax.Array]]:
    """Return random weights."""
    keys = jax.random.split(key, len(WIDTHS) - 1)
    return [
        {"w": jax.random.normal(k, (inputs, outputs)) / np.sqrt(inputs), "b": jnp.zeros(outputs)}
        for k, inputs, outputs in zip(keys, WIDTHS[:-1], WIDTHS[1:], strict=True)
    ]


def logits_of(params: list[dict[str, jax.Array]], images: jax.Array) -> jax.Array:
    """Return a score per digit for some images."""
    for layer in params[:-1]:
        images = jax.nn.relu(images @ layer["w"] + layer["b"])
    return images @ params[-1]["w"] + params[-1]["b"]


def loss_of(params: list[dict[str, jax.Array]], images: jax.Array, digits: jax.Array) -> jax.Array:
    """Return the mean cross entropy."""
    return optax.softmax_cross_entropy_with_integer_labels(logits_of(params, images), digits).mean()


optimizer = hvd.distributed(optax.adam(1e-3))


@jax.jit
def step(
    params: list[dict[str, jax.Array]], state: optax.OptState, images: jax.Array, digits: jax.Array
) -> tuple[list[dict[str, jax.Array]], optax.OptState, jax.Array]:
    """Return parameters, state and loss after a step."""
    loss, gradients = jax.value_and_grad(loss_of)(params, images, digits)
    updates, state = optimizer.update(gradients, state, params)
    return optax.apply_updates(params, updates), state, loss


def main() -> None:
    """Train, and print the accuracy on images that no rank has trained on."""
    data = load_digits()
    images, digits = (data.data / 16.0).astype(np.float32), data.target
    train, test = slice(0, 1_500), slice(1_500, None)
    params = hvd.broadcast_parameters(new_params(jax.random.key(hvd.rank())), root_rank=0)
    state = optimizer.init(params)
    shuffled = np.random.default_rng(0)
    for _ in range(EPOCHS):
        order = shuffled.permutation(1_500)  # the same on all ranks
        for begin in range(0, 1_500 - ROWS * hvd.size() + 1, ROWS * hvd.size()):
            rows = order[begin + ROWS * hvd.rank() : begin + ROWS * (hvd.rank() + 1)]
            params, state, _ = step(params, state, images[train][rows], digits[train][rows])
    accuracy = (logits_of(params, images[test]).argmax(axis=1) == digits[test]).mean()
    if hvd.rank() == 0:
        sys.stdout.write(f"accuracy {float(accuracy):.3f} on {hvd.size()} ranks\n")


main()
