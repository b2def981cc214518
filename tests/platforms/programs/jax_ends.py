# SPDX-License-Identifier: Apache-2.0
"""Ends a training with JAX in one of several ways.

Argument: `unawaited`, `lost`, `mismatch`, `left`, or `tuned`.
"""

import os
import sys

import jax
import jax.numpy as jnp
import optax

import ringtune.jax as hvd

LAYERS = 6
hvd.init()
optimizer = hvd.distributed(optax.sgd(0.1))


def loss(params: list[jax.Array], rows: jax.Array) -> jax.Array:
    """Return the mean loss of some rows."""
    for weight in params:
        rows = jnp.tanh(rows @ weight)
    return (rows**2).mean()


@jax.jit
def step(params: list[jax.Array], rows: jax.Array) -> list[jax.Array]:
    """Return the parameters after a step."""
    updates, _ = optimizer.update(jax.grad(loss)(params, rows), optimizer.init(params), params)
    return optax.apply_updates(params, updates)


def train(way: str, params: list[jax.Array], rows: jax.Array) -> None:
    """Train until the end that was asked for."""
    for number in range(40):
        if way == "lost" and number == 20 and hvd.rank() == 1:
            os._exit(3)
        params = step(params, rows)
    if way != "unawaited":
        jax.block_until_ready(params)


def main() -> None:
    """Train and end."""
    params = [jax.random.normal(key, (64, 64)) * 0.1 for key in jax.random.split(jax.random.key(0), LAYERS)]
    rows = jnp.ones((8, 64))
    way = sys.argv[1]
    try:
        if way == "mismatch":
            jax.block_until_ready(jax.jit(lambda value: hvd.allreduce(value, name="x"))(jnp.ones(3 + hvd.rank())))
        elif way == "tuned":
            while not hvd.allreduce(jnp.int32(hvd.tuning_finished()), op=hvd.Min, name="end"):  # JAX runs ahead
                params = step(params, rows)
        else:
            if way == "left":
                params = step(params, rows)
                hvd.shutdown()
            train(way, params, rows)
    except jax.errors.JaxRuntimeError as error:
        sys.stdout.write(f"rank says: {str(error)[-400:]}\n")
    sys.stdout.write("end\n")


main()
