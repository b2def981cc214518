# SPDX-License-Identifier: Apache-2.0
"""Ten programs beyond data-parallel training, each on all ranks and in one process, with the results compared.

Every program returns the values that all ranks hold alike at its end; parts of a rank are gathered first.
"""

import io
import sys
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ringtune.jax as hvd

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
WIDTH = 4 * SIZE
ROWS = 6 * SIZE  # batch of all ranks
STEPS = 4
RATE = 0.2
BATCHES = jax.random.normal(jax.random.key(1), (STEPS, ROWS, WIDTH))
Params = dict[str, Any]


def own(rows: Any) -> Any:
    """Return this rank's part of rows that all ranks have."""
    return jnp.split(rows, SIZE)[RANK]


def new_params(seed: int = 0) -> Params:
    """Return the weights of a small network."""
    first, second = jax.random.split(jax.random.key(seed))
    return {
        "in": jax.random.normal(first, (WIDTH, WIDTH)) * 0.4,
        "out": jax.random.normal(second, (WIDTH, WIDTH)) * 0.4,
    }


def loss_of(params: Params, rows: Any) -> Any:
    """Return the mean loss of some rows."""
    return ((jnp.tanh(rows @ params["in"]) @ params["out"] - 1) ** 2).mean()


def descended(params: Params, gradients: Params) -> Params:
    """Return the parameters after a step of gradient descent."""
    return jax.tree.map(lambda p, g: p - RATE * g, params, gradients)


def train_alone(params: Params, batches: Any, loss: Any = loss_of) -> Params:
    """Return the parameters that one process gets from whole batches."""
    step = jax.jit(lambda params, rows: descended(params, jax.grad(loss)(params, rows)))
    for rows in batches:
        params = step(params, rows)
    return params


def sharded_optimizer() -> tuple[Any, Any]:
    """Each rank keeps Adam's state of its share of the parameters: reducescatter, update, allgather."""
    optimizer = optax.adam(0.05)

    @jax.jit
    def step(params: Params, state: Any, rows: Any) -> tuple[Params, Any]:
        gradients = hvd.grouped_reducescatter(jax.grad(loss_of)(params, rows))
        shares = jax.tree.map(own, params)
        updates, state = optimizer.update(gradients, state, shares)
        return hvd.grouped_allgather(optax.apply_updates(shares, updates)), state

    @jax.jit
    def step_alone(params: Params, state: Any, rows: Any) -> tuple[Params, Any]:
        updates, state = optimizer.update(jax.grad(loss_of)(params, rows), state, params)
        return optax.apply_updates(params, updates), state

    params, state = new_params(), optimizer.init(jax.tree.map(own, new_params()))
    alone, state_alone = new_params(), optimizer.init(new_params())
    for rows in BATCHES:
        params, state = step(params, state, own(rows))
        alone, state_alone = step_alone(alone, state_alone, rows)
    return params, alone


def synchronized_batch_norm() -> tuple[Any, Any]:
    """Means of the whole batch, in the forward pass and through its gradient."""

    def normalized_loss(params: Params, rows: Any, average: Any) -> Any:
        hidden = rows @ params["in"]
        mean, square = average(hidden.mean(axis=0)), average((hidden**2).mean(axis=0))
        return ((jnp.tanh((hidden - mean) / jnp.sqrt(square - mean**2 + 1e-3)) @ params["out"] - 1) ** 2).mean()

    @jax.jit
    def step(params: Params, rows: Any) -> Params:
        gradients = jax.grad(lambda params: normalized_loss(params, rows, hvd.allreduce))(params)
        return descended(params, hvd.allreduce_gradients(gradients, name="norm"))

    params = new_params()
    for rows in BATCHES:
        params = step(params, own(rows))
    return params, train_alone(new_params(), BATCHES, lambda p, rows: normalized_loss(p, rows, lambda mean: mean))


def tensor_parallel() -> tuple[Any, Any]:
    """Columns of the first weights and rows of the second lie on one rank; the sum of the products is the result."""

    def split_loss(parts: Params, rows: Any) -> Any:
        partial_products = jnp.tanh(rows @ parts["in"].T) @ parts["out"]
        return ((hvd.allreduce(partial_products, op=hvd.Sum) - 1) ** 2).mean() / SIZE  # one loss, on every rank

    step = jax.jit(lambda parts, rows: descended(parts, jax.grad(split_loss)(parts, rows)))
    whole = new_params()
    parts = {"in": own(whole["in"].T), "out": own(whole["out"])}
    for rows in BATCHES:
        parts = step(parts, rows)
    gathered = hvd.grouped_allgather(parts)
    return {"in": gathered["in"].T, "out": gathered["out"]}, train_alone(whole, BATCHES)


def sequence_parallel() -> tuple[Any, Any]:
    """Rows are gathered before the split weights and scattered after them; a scale of all ranks is in front."""

    def split_loss(parts: Params, rows: Any) -> Any:
        everything = hvd.allgather(rows * parts["scale"])
        kept = hvd.reducescatter(jnp.tanh(everything @ parts["in"].T) @ parts["out"], op=hvd.Sum)
        return ((kept - 1) ** 2).sum() / (ROWS * WIDTH)

    @jax.jit
    def step(parts: Params, rows: Any) -> Params:
        gradients = jax.grad(split_loss)(parts, rows)
        gradients["scale"] = hvd.allreduce(gradients["scale"], op=hvd.Sum)
        return descended(parts, gradients)

    def whole_loss(params: Params, rows: Any) -> Any:
        return loss_of(params, rows * params["scale"])

    whole = {**new_params(), "scale": jnp.float32(1.5)}
    parts = {"in": own(whole["in"].T), "out": own(whole["out"]), "scale": whole["scale"]}
    for rows in BATCHES:
        parts = step(parts, own(rows))
    result = {"in": hvd.allgather(parts["in"]).T, "out": hvd.allgather(parts["out"]), "scale": parts["scale"]}
    return result, train_alone(whole, BATCHES, whole_loss)


def mixture_of_experts() -> tuple[Any, Any]:
    """Each rank has an expert; rows travel to theirs and back, and so do the gradients."""

    def split_loss(expert: Any, rows: Any) -> Any:
        returned = hvd.alltoall(jnp.tanh(hvd.alltoall(rows) @ expert))
        return ((returned - 1) ** 2).sum() / (ROWS * WIDTH)

    def whole_loss(experts: Any, rows: Any) -> Any:
        by_rank = rows.reshape(SIZE, SIZE, -1, WIDTH)  # of each rank, for each expert
        return ((jnp.tanh(jnp.einsum("rexw,ewv->rexv", by_rank, experts)) - 1) ** 2).mean()

    experts = jax.random.normal(jax.random.key(2), (SIZE, WIDTH, WIDTH)) * 0.4
    expert = experts[RANK]
    step = jax.jit(lambda expert, rows: expert - RATE * jax.grad(split_loss)(expert, rows))
    for rows in BATCHES:
        expert = step(expert, own(rows))
    return hvd.allgather(expert[None]), train_alone(experts, BATCHES, whole_loss)


def early_stopping() -> tuple[Any, Any]:
    """The ranks' mean loss decides for all of them when to stop, in a loop of the compiled function."""

    def trained(params: Params, rows: Any, average: Any) -> tuple[Any, Params]:
        def step(state: tuple[Any, Params, Any]) -> tuple[Any, Params, Any]:
            number, params, _ = state
            loss, gradients = jax.value_and_grad(loss_of)(params, rows)
            return number + 1, descended(params, jax.tree.map(average, gradients)), average(loss)

        state = (0, params, jnp.float32(1e9))
        return jax.lax.while_loop(lambda state: (state[2] > 0.5) & (state[0] < 50), step, state)[:2]

    together = jax.jit(lambda params, rows: trained(params, rows, hvd.allreduce))(new_params(), own(BATCHES[0]))
    alone = jax.jit(lambda params, rows: trained(params, rows, lambda mean: mean))(new_params(), BATCHES[0])
    assert 1 < int(together[0]) < 50, together[0]
    return together, alone


def checkpoint() -> tuple[Any, Any]:
    """Rank 0 alone writes and reads; the others, which begin anew, get its parameters and Adam's state."""
    optimizer = hvd.distributed(optax.adam(0.05), name="checkpoint")

    def make_step(optimizer: Any) -> Any:
        def step(train: Any, rows: Any) -> Any:
            params, state = train
            updates, state = optimizer.update(jax.grad(loss_of)(params, rows), state, params)
            return optax.apply_updates(params, updates), state

        return jax.jit(step)

    def begun(seed: int) -> Any:
        return new_params(seed), optimizer.init(new_params(seed))

    train, step, file = begun(0), make_step(optimizer), io.BytesIO()
    for rows in BATCHES[:2]:
        train = step(train, own(rows))
    if RANK == 0:
        np.savez(file, *[np.asarray(leaf) for leaf in jax.tree.leaves(train)])
        file.seek(0)
    train = begun(RANK + 5)
    if RANK == 0:
        train = jax.tree.unflatten(jax.tree.structure(train), [jnp.asarray(leaf) for leaf in np.load(file).values()])
    train = hvd.broadcast_parameters(train, root_rank=0)
    for rows in BATCHES[2:]:
        train = step(train, own(rows))
    alone, step_alone = begun(0), make_step(optax.adam(0.05))
    for rows in BATCHES:
        alone = step_alone(alone, rows)
    return train, alone


def two_process_sets() -> tuple[Any, Any]:
    """A model of all ranks and one of the first and the last rank, trained in turn, in one job."""
    pair = hvd.add_process_set([0, SIZE - 1]) if SIZE > 2 else hvd.global_process_set
    members = [0, SIZE - 1]

    def make_step(name: str, process_set: Any) -> Any:
        optimizer = hvd.distributed(optax.sgd(RATE), name=name, process_set=process_set)

        @jax.jit
        def step(params: Params, rows: Any) -> Params:
            updates, _ = optimizer.update(jax.grad(loss_of)(params, rows), optimizer.init(params), params)
            return optax.apply_updates(params, updates)

        return step

    of_all, of_pair = make_step("all", hvd.global_process_set), make_step("pair", pair)
    first, second = new_params(0), new_params(1)
    for rows in BATCHES:
        if pair.included():
            second = of_pair(second, own(rows))
        first = of_all(first, own(rows))
    second = hvd.broadcast_parameters(second, root_rank=0)
    of_members = [jnp.concatenate([jnp.split(rows, SIZE)[rank] for rank in members]) for rows in BATCHES]
    return (first, second), (train_alone(new_params(0), BATCHES), train_alone(new_params(1), of_members))


def interleaved_models() -> tuple[Any, Any]:
    """Two models with an optimizer each in one compiled step, and a metric over all ranks beside them."""
    optimizers = [hvd.distributed(optax.sgd(RATE), name=name, num_groups=2) for name in ("left", "right")]

    @jax.jit
    def step(models: list[Params], rows: Any) -> tuple[list[Params], Any]:
        losses, gradients = zip(*(jax.value_and_grad(loss_of)(params, rows) for params in models), strict=True)
        moved = [
            optax.apply_updates(params, optimizer.update(gradient, optimizer.init(params), params)[0])
            for params, optimizer, gradient in zip(models, optimizers, gradients, strict=True)
        ]
        return moved, hvd.allreduce(jnp.stack(losses), name="losses")

    models, history = [new_params(0), new_params(1)], []
    for rows in BATCHES:
        models, losses = step(models, own(rows))
        history.append(losses)
    alone, expected = [new_params(0), new_params(1)], []
    for rows in BATCHES:
        expected.append(jnp.stack([loss_of(params, rows) for params in alone]))
        alone = [train_alone(params, [rows]) for params in alone]
    return (models, history), (alone, expected)


def local_steps() -> tuple[Any, Any]:
    """Ranks step alone and average their parameters after every second step, by a branch within a scan."""

    def trained(params: Params, batches: Any, average: Any) -> Params:
        def step(params: Params, numbered: Any) -> tuple[Params, None]:
            number, rows = numbered
            params = descended(params, jax.grad(loss_of)(params, rows))
            return jax.lax.cond(number % 2 == 1, average, lambda params: params, params), None

        return jax.lax.scan(step, params, (jnp.arange(STEPS), batches))[0]

    batches = jnp.stack([own(rows) for rows in BATCHES])
    together = jax.jit(lambda batches: trained(new_params(), batches, hvd.grouped_allreduce))(batches)
    replicas = [new_params()] * SIZE
    for number, rows in enumerate(BATCHES):
        parts = jnp.split(rows, SIZE)
        replicas = [train_alone(params, [part]) for params, part in zip(replicas, parts, strict=True)]
        if number % 2 == 1:
            replicas = [jax.tree.map(lambda *each: sum(each) / SIZE, *replicas)] * SIZE
    return together, replicas[0]


PROGRAMS = (
    sharded_optimizer,
    synchronized_batch_norm,
    tensor_parallel,
    sequence_parallel,
    mixture_of_experts,
    early_stopping,
    checkpoint,
    two_process_sets,
    interleaved_models,
    local_steps,
)


def main() -> None:
    """Compare all programs, or those that the arguments name."""
    for program in PROGRAMS:
        if sys.argv[1:] and program.__name__ not in sys.argv[1:]:
            continue
        together, alone = (jax.tree.leaves(result) for result in program())
        assert len(together) == len(alone) > 0
        for left, right in zip(together, alone, strict=True):
            np.testing.assert_allclose(left, right, rtol=2e-4, atol=2e-5, err_msg=program.__name__)
        digests = hvd.allgather_object([np.asarray(leaf).tobytes().hex() for leaf in together])
        assert all(digest == digests[0] for digest in digests), program.__name__  # the same bits on all ranks
        sys.stdout.write(f"{program.__name__} is right\n")


main()
