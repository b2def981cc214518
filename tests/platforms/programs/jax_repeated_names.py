# SPDX-License-Identifier: Apache-2.0
"""Calls of one name several times in a compiled function, each way on all ranks and in one process, compared.

Each rank prints the passed checks. Arguments: `fallback`, where the library of asynchronous calls is hidden; or
`devices`, where this process has two devices and every collective of a function of both must be refused.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import ringtune.jax as hvd
from ringtune.graph_operations import graph_library

if "fallback" in sys.argv:
    graph_library.library_folders = lambda: iter([Path("/nowhere")])
if "devices" in sys.argv:
    jax.config.update("jax_num_cpu_devices", 2)
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
ROWS = 6  # batch of one rank
STEPS = 4
BATCHES = jax.random.normal(jax.random.key(3), (STEPS, ROWS * SIZE, 8))
OWN = BATCHES[:, ROWS * RANK : ROWS * (RANK + 1)]
Distribute = Callable[[Any], Any]


def new_model(seed: int) -> Any:
    """Return the weights of a small network."""
    return {"w": jax.random.normal(jax.random.key(seed), (8, 8)) * 0.3, "b": jnp.zeros(8)}


def gradients_of(model: Any, rows: Any, factor: float = 1.0) -> Any:
    """Return the gradients of a loss that differs by its factor."""
    return jax.grad(lambda model: ((jnp.tanh(rows @ model["w"] + model["b"]) - factor) ** 2).mean())(model)


def stepped(optimizer: Any, member: Any, gradients: Any) -> Any:
    """Return a pair of a model and its optimizer's state after a step."""
    model, state = member
    updates, state = optimizer.update(gradients, state, model)
    return optax.apply_updates(model, updates), state


def trained(step: Any, optimizers: Any, batches: Any) -> Any:
    """Return the models that a step leaves, which takes and returns pairs of model and state, one per optimizer."""
    members = [(new_model(seed), optimizer.init(new_model(seed))) for seed, optimizer in enumerate(optimizers)]
    for rows in batches:
        members = step(members, rows)
    return [model for model, _ in members]


def ensemble(distribute: Distribute, batches: Any) -> Any:
    """Five members of one optimizer in one function."""
    optimizer = distribute(optax.adam(1e-2))

    @jax.jit
    def step(members: Any, rows: Any) -> Any:
        return [stepped(optimizer, member, gradients_of(member[0], rows, n)) for n, member in enumerate(members)]

    return trained(step, [optimizer] * 5, batches)


def two_optimizers_for_two_models(distribute: Distribute, batches: Any) -> Any:
    """Each optimizer steps two of the four models."""
    first, second = distribute(optax.sgd(0.3)), distribute(optax.adam(1e-2))
    chosen = [first, second, first, second]

    @jax.jit
    def step(members: Any, rows: Any) -> Any:
        pairs = zip(chosen, members, strict=True)
        return [
            stepped(optimizer, member, gradients_of(member[0], rows, n)) for n, (optimizer, member) in enumerate(pairs)
        ]

    return trained(step, chosen, batches)


def micro_batches(distribute: Distribute, batches: Any) -> Any:
    """The gradients of each micro-batch are combined apart, in an unrolled loop."""
    is_alone = distribute is not hvd.distributed

    @jax.jit
    def step(model: Any, rows: Any) -> Any:
        total = jax.tree.map(jnp.zeros_like, model)
        for number in range(3):
            part = rows.reshape(-1, 3, 8)[:, number]
            found = gradients_of(model, part)
            total = jax.tree.map(jnp.add, total, found if is_alone else hvd.allreduce_gradients(found))
        return jax.tree.map(lambda value, slope: value - 0.1 * slope, model, total)

    model = new_model(0)
    for rows in batches:
        model = step(model, rows)
    return model


def nested_function(distribute: Distribute, batches: Any) -> Any:
    """A compiled function that another one calls for each of two models, beside a call of its own."""
    optimizer = distribute(optax.sgd(0.3))

    @jax.jit
    def update(member: Any, rows: Any, factor: Any) -> Any:
        return stepped(optimizer, member, gradients_of(member[0], rows, factor))

    @jax.jit
    def step(members: Any, rows: Any) -> Any:
        own = stepped(optimizer, members[0], gradients_of(members[0][0], rows, 3.0))
        return [own, *(update(member, rows, jnp.float32(n)) for n, member in enumerate(members[1:]))]

    return trained(step, [optimizer] * 3, batches)


def partly_traced_again(distribute: Distribute, batches: Any) -> Any:
    """Two compiled functions of one name inside another; with a smaller batch only one of them is traced again."""
    optimizer = distribute(optax.sgd(0.3))

    @jax.jit
    def on_rows(member: Any, rows: Any) -> Any:
        return stepped(optimizer, member, gradients_of(member[0], rows))

    @jax.jit
    def on_mean(member: Any, row: Any) -> Any:
        return stepped(optimizer, member, gradients_of(member[0], row, 2.0))

    @jax.jit
    def step(members: Any, rows: Any) -> Any:
        mean = rows.mean(axis=0, keepdims=True)
        return [on_mean(members[0], 0 * mean + 1), on_rows(members[1], rows)]

    members = trained(step, [optimizer] * 2, batches)
    shorter = [np.concatenate([rows[at : at + 2] for at in range(0, len(rows), ROWS)]) for rows in np.asarray(batches)]
    return members, trained(step, [optimizer] * 2, shorter)


def loops(distribute: Distribute, batches: Any) -> Any:
    """Two models in the body of a scan, two steps of which XLA runs as one; then again behind it."""
    optimizer = distribute(optax.sgd(0.3))

    def body(members: Any, rows: Any) -> Any:
        return [stepped(optimizer, member, gradients_of(member[0], rows)) for member in members], None

    @jax.jit
    def epoch(members: Any) -> Any:
        members, _ = jax.lax.scan(body, members, batches, unroll=2)
        return jax.lax.fori_loop(0, 2, lambda number, members: body(members, batches[number])[0], members)

    models = [new_model(0), new_model(1)]
    return [model for model, _ in epoch([(model, optimizer.init(model)) for model in models])]


def teacher(distribute: Distribute, batches: Any) -> Any:
    """A moving average of a model is the target of its next step, and both are combined under one name."""
    optimizer = distribute(optax.chain(optax.clip_by_global_norm(0.5), optax.adam(1e-2)))
    is_alone = distribute is not hvd.distributed

    @jax.jit
    def step(members: Any, rows: Any) -> Any:
        (model, state), (average, other) = members
        model, state = stepped(optimizer, (model, state), gradients_of(model, rows, average["b"].mean()))
        drift = jax.tree.map(lambda mean, value: 0.1 * (value - mean), average, model)
        drift = drift if is_alone else hvd.grouped_allreduce(drift, name="drift")
        drift = drift if is_alone else hvd.grouped_allreduce(drift, name="drift")
        return [(model, state), (optax.apply_updates(average, drift), other)]

    return trained(step, [optimizer] * 2, batches)


def outside(distribute: Distribute, batches: Any) -> Any:
    """Steps outside of compiled functions, one after the other, beside compiled ones."""
    optimizer = distribute(optax.sgd(0.3))

    def step(members: Any, rows: Any) -> Any:
        return [stepped(optimizer, member, gradients_of(member[0], rows)) for member in members]

    return trained(step, [optimizer] * 2, batches[:2]), trained(jax.jit(step), [optimizer] * 2, batches[2:])


def line_search(distribute: Distribute, batches: Any) -> Any:
    """L-BFGS by either line search: it reads values and gradients between two updates, of all ranks' batches."""
    backtracking = optax.scale_by_backtracking_linesearch(max_backtracking_steps=8, store_grad=True)
    results = []
    for inner in (optax.lbfgs(), optax.chain(optax.sgd(1.0), backtracking)):
        optimizer = distribute(inner)

        @jax.jit
        def step(model: Any, state: Any, optimizer: Any = optimizer) -> Any:
            rows = batches[0]

            def loss(model: Any) -> Any:
                return ((jnp.tanh(rows @ model["w"] + model["b"]) - 0.5) ** 2).mean()

            value, gradient = optax.value_and_grad_from_state(loss)(model, state=state)
            updates, state = optimizer.update(gradient, state, model, value=value, grad=gradient, value_fn=loss)
            return optax.apply_updates(model, updates), state

        model = new_model(0)
        state = optimizer.init(model)
        for _ in range(STEPS):
            model, state = step(model, state)
        results.append(model)
    return results


def readers_of_values(distribute: Distribute, batches: Any) -> Any:
    """A plateau is judged by the mean loss of all ranks, and a second gradient is of all ranks."""
    plateau = distribute(optax.chain(optax.sgd(0.3), optax.contrib.reduce_on_plateau(patience=1, rtol=0.1)))
    sharpness = distribute(
        optax.contrib.sam(optax.sgd(0.3), optax.chain(optax.contrib.normalize(), optax.sgd(0.1)), opaque_mode=True)
    )

    @jax.jit
    def step(members: Any, rows: Any) -> Any:
        (first, first_state), (second, second_state) = members
        value = jnp.abs(rows).mean()
        updates, first_state = plateau.update(gradients_of(first, rows), first_state, first, value=value)
        first = optax.apply_updates(first, updates)
        found = gradients_of(second, rows)
        updates, second_state = sharpness.update(
            found, second_state, second, grad_fn=lambda model, _: gradients_of(model, rows)
        )
        return [(first, first_state), (optax.apply_updates(second, updates), second_state)]

    return trained(step, [plateau, sharpness], batches)


def second_derivatives(distribute: Distribute, batches: Any) -> Any:
    """Objectives whose second derivatives an optimizer takes are refused."""
    if distribute is hvd.distributed:
        with pytest.raises(hvd.ConfigError, match="cannot combine obj_fn"):
            distribute(optax.sgd(0.1)).update(batches[0], None, obj_fn=jnp.sum)
    return new_model(0)


WAYS = (
    ensemble,
    two_optimizers_for_two_models,
    micro_batches,
    nested_function,
    partly_traced_again,
    loops,
    teacher,
    line_search,
    readers_of_values,
    second_derivatives,
    outside,
)


def check_ways() -> None:
    """Compare all ways."""
    for way in WAYS:
        together = jax.tree.leaves(way(hvd.distributed, OWN))
        alone = jax.tree.leaves(way(lambda optimizer: optimizer, BATCHES))
        assert len(together) == len(alone) > 0
        for left, right in zip(together, alone, strict=True):
            np.testing.assert_allclose(left, right, atol=5e-5, err_msg=way.__name__)
        digests = hvd.allgather_object([np.asarray(leaf).tobytes().hex() for leaf in together])
        assert all(digest == digests[0] for digest in digests), way.__name__  # the same bits on all ranks
        sys.stdout.write(f"{way.__name__} is right\n")


def check_devices() -> None:
    """Every collective of a function of two devices is refused with the way out, and the world stays usable."""
    mesh = jax.make_mesh((2,), ("local",), axis_types=(jax.sharding.AxisType.Auto,))
    explicit = jax.make_mesh((2,), ("local",), axis_types=(jax.sharding.AxisType.Explicit,))
    parts = jax.sharding.PartitionSpec("local")
    optimizer = hvd.distributed(optax.sgd(0.3))
    model = new_model(0)

    def update(rows: Any) -> Any:
        return optimizer.update(gradients_of(model, rows), optimizer.init(model), model)[0]

    of_any_mesh = {"metric": jax.jit(lambda rows: hvd.allreduce(rows.mean())), "gathered": jax.jit(hvd.allgather)}
    refused = {
        **of_any_mesh,
        "step": jax.jit(update),
        "nested": jax.jit(jax.jit(update)),
        "shard_map": jax.jit(jax.shard_map(hvd.allreduce, mesh=mesh, in_specs=parts, out_specs=parts)),
        "pmap": lambda rows: jax.pmap(hvd.allreduce)(rows.reshape(2, -1, 8)),
    }
    for kind, functions in ((mesh, refused), (explicit, of_any_mesh)):
        rows = jax.device_put(OWN[0], jax.sharding.NamedSharding(kind, parts))
        for function in functions.values():
            with pytest.raises(hvd.ConfigError, match="function of one device"):
                jax.block_until_ready(function(rows))
    train_by_the_page(mesh, optimizer, model)


def train_by_the_page(mesh: Any, optimizer: Any, model: Any) -> None:
    """Gradients on two devices in a compiled function, combined outside of it: equal to one process."""
    parts = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("local"))
    state, alone = optimizer.init(model), model
    for rows, whole in zip(OWN, BATCHES, strict=True):
        found = jax.jit(gradients_of)(model, jax.device_put(rows, parts))
        model, state = stepped(optimizer, (model, state), found)
        alone = jax.tree.map(lambda value, slope: value - 0.3 * slope, alone, gradients_of(alone, whole))
    for left, right in zip(jax.tree.leaves(model), jax.tree.leaves(alone), strict=True):
        np.testing.assert_allclose(left, right, atol=5e-5)
    sys.stdout.write("devices are right\n")


if "devices" in sys.argv:
    check_devices()
else:
    check_ways()
