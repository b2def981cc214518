# SPDX-License-Identifier: Apache-2.0
"""Trains as JAX's users would first, each way on all ranks and in one process, and compares the parameters."""

import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen, nnx
from flax.training.train_state import TrainState

import ringtune.jax as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
ROWS = 4  # batch of one rank
BATCHES = jax.random.normal(jax.random.key(7), (12, ROWS * SIZE, 8))
Distribute = Callable[[Any], Any]


def mlp_params() -> dict[str, Any]:
    """Return the parameters of a small network."""
    keys = jax.random.split(jax.random.key(0), 3)
    return {
        f"layer{number}": {"w": jax.random.normal(key, (8, 8)) * 0.3, "b": jnp.zeros(8)}
        for number, key in enumerate(keys)
    }


def mlp_loss(params: Any, rows: Any) -> Any:
    """Return the mean loss of some rows."""
    for layer in params.values():
        rows = jnp.tanh(rows @ layer["w"] + layer["b"])
    return (rows**2).mean()


def train(optimizer: Any, batches: Any) -> Any:
    """Return the parameters after a jitted step for each batch."""
    params = mlp_params()
    state = optimizer.init(params)

    @jax.jit
    def step(params: Any, state: Any, rows: Any) -> Any:
        updates, state = optimizer.update(jax.grad(mlp_loss)(params, rows), state, params)
        return optax.apply_updates(params, updates), state

    for rows in batches:
        params, state = step(params, state, rows)
    return params


def plain(distribute: Distribute, batches: Any) -> Any:
    """An optimizer of Optax's."""
    return train(distribute(optax.adam(1e-2)), batches)


def eager(distribute: Distribute, batches: Any) -> Any:
    """The same without `jit`."""
    params, optimizer = mlp_params(), distribute(optax.sgd(0.5))
    state = optimizer.init(params)
    for rows in batches:
        updates, state = optimizer.update(jax.grad(mlp_loss)(params, rows), state, params)
        params = optax.apply_updates(params, updates)
    return params


def chained(distribute: Distribute, batches: Any) -> Any:
    """Clipping by the global norm needs the combined gradients."""
    return train(distribute(optax.chain(optax.clip_by_global_norm(0.01), optax.adamw(1e-2))), batches)


def accumulated(distribute: Distribute, batches: Any) -> Any:
    """One update for every two batches."""
    return train(optax.MultiSteps(distribute(optax.sgd(0.5)), every_k_schedule=2), batches)


def whole_epoch(distribute: Distribute, batches: Any) -> Any:
    """All steps in one `scan`."""
    optimizer = distribute(optax.sgd(0.5))

    def step(carry: Any, rows: Any) -> Any:
        params, state = carry
        updates, state = optimizer.update(jax.grad(mlp_loss)(params, rows), state, params)
        return (optax.apply_updates(params, updates), state), None

    params = mlp_params()
    (params, _), _ = jax.jit(lambda carry: jax.lax.scan(step, carry, batches))((params, optimizer.init(params)))
    return params


def remat(distribute: Distribute, batches: Any) -> Any:
    """Activations that are computed twice, and donated buffers."""
    params, optimizer = mlp_params(), distribute(optax.sgd(0.5))
    state = optimizer.init(params)

    def step(params: Any, state: Any, rows: Any) -> Any:
        gradients = jax.grad(jax.checkpoint(mlp_loss))(params, rows)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state

    step = jax.jit(step, donate_argnums=(0, 1))
    for rows in batches:
        params, state = step(params, state, rows)
    return params


def hand_written(distribute: Distribute, batches: Any) -> Any:
    """No Optax: the gradients of a jitted function, combined inside it."""
    is_alone = distribute is not hvd.distributed

    @jax.jit
    def step(params: Any, rows: Any) -> Any:
        gradients = jax.grad(mlp_loss)(params, rows)
        gradients = gradients if is_alone else hvd.allreduce_gradients(gradients, name="hand")
        return jax.tree.map(lambda p, g: p - 0.5 * g, params, gradients)

    params = mlp_params()
    for rows in batches:
        params = step(params, rows)
    return params


class _Linen(linen.Module):
    @linen.compact
    def __call__(self, rows: Any) -> Any:
        return linen.Dense(1)(jnp.tanh(linen.Dense(8)(rows)))


def flax_linen(distribute: Distribute, batches: Any) -> Any:
    """A module of Flax's with its train state."""
    model = _Linen()
    params = model.init(jax.random.key(0), batches[0])["params"]
    state = TrainState.create(apply_fn=model.apply, params=params, tx=distribute(optax.adam(1e-2)))

    @jax.jit
    def step(state: Any, rows: Any) -> Any:
        gradients = jax.grad(lambda params: (state.apply_fn({"params": params}, rows) ** 2).mean())(state.params)
        return state.apply_gradients(grads=gradients)

    for rows in batches:
        state = step(state, rows)
    return state.params


def flax_nnx(distribute: Distribute, batches: Any) -> Any:
    """A module of Flax's newer interface with its optimizer."""
    model = nnx.Sequential(nnx.Linear(8, 8, rngs=nnx.Rngs(0)), jnp.tanh, nnx.Linear(8, 1, rngs=nnx.Rngs(1)))
    optimizer = nnx.Optimizer(model, distribute(optax.adam(1e-2)), wrt=nnx.Param)

    @nnx.jit
    def step(model: Any, optimizer: Any, rows: Any) -> Any:
        optimizer.update(model, nnx.grad(lambda model: (model(rows) ** 2).mean())(model))

    for rows in batches:
        step(model, optimizer, rows)
    return nnx.state(model, nnx.Param)


def equinox(distribute: Distribute, batches: Any) -> Any:
    """A module of Equinox's with its filtered transformations."""
    model = eqx.nn.MLP(8, 1, 8, 1, key=jax.random.key(0))
    optimizer = distribute(optax.adam(1e-2))
    state = optimizer.init(eqx.filter(model, eqx.is_inexact_array))

    @eqx.filter_jit
    def step(model: Any, state: Any, rows: Any) -> Any:
        gradients = eqx.filter_grad(lambda model: (jax.vmap(model)(rows) ** 2).mean())(model)
        updates, state = optimizer.update(gradients, state, eqx.filter(model, eqx.is_inexact_array))
        return eqx.apply_updates(model, updates), state

    for rows in batches:
        model, state = step(model, state, rows)
    return eqx.filter(model, eqx.is_inexact_array)


WAYS = (plain, eager, chained, accumulated, whole_epoch, remat, hand_written, flax_linen, flax_nnx, equinox)


def main() -> None:
    """Compare all ways."""
    own = BATCHES[:, ROWS * RANK : ROWS * (RANK + 1)]
    for way in WAYS:
        together = jax.tree.leaves(way(hvd.distributed, own))
        alone = jax.tree.leaves(way(lambda optimizer: optimizer, BATCHES))
        assert len(together) == len(alone) > 0
        for left, right in zip(together, alone, strict=True):
            np.testing.assert_allclose(left, right, atol=5e-5, err_msg=way.__name__)
        digests = hvd.allgather_object([np.asarray(leaf).tobytes().hex() for leaf in together])
        assert all(digest == digests[0] for digest in digests), way.__name__  # the same bits on all ranks
        sys.stdout.write(f"{way.__name__} is right\n")


main()
