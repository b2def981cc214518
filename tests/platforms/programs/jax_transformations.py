# SPDX-License-Identifier: Apache-2.0
"""Checks each collective of `ringtune.jax` under each transformation against the same function of one process.

The reference takes the arrays of all ranks and returns the results of all; JAX itself differentiates and batches it.
Argument: `fallback`, where the library of asynchronous calls is hidden.
"""

import sys
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import ringtune.jax as hvd
from ringtune.graph_operations import graph_library

IS_FALLBACK = "fallback" in sys.argv
if IS_FALLBACK:
    graph_library.library_folders = lambda: iter([Path("/nowhere")])
jax.config.update("jax_enable_x64", True)
hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()
SPLITS = list(range(1, SIZE + 1))  # rank r gets r + 1 rows of each rank
BATCH = 4


class Case(NamedTuple):
    """A collective and its reference.

    Attributes:
        rows: Rows of each rank's array.
        run: The collective of this rank's array.
        reference: Results of all ranks for the arrays of all ranks.
    """

    rows: int
    run: Callable[[Any], Any]
    reference: Callable[[list[Any]], list[Any]]


def sent(arrays: list[Any], splits: list[int]) -> list[Any]:
    """Return the rows that each rank receives in an alltoall."""
    ends = np.cumsum(splits)
    return [jnp.concatenate([each[end - own : end] for each in arrays]) for own, end in zip(splits, ends, strict=True)]


def scattered(total: Any) -> list[Any]:
    """Return each rank's part of a sum."""
    return list(jnp.array_split(total, SIZE))


CASES = {
    "allreduce": Case(3, hvd.allreduce, lambda arrays: [sum(arrays) / SIZE] * SIZE),
    "scaled": Case(
        3,
        lambda x: hvd.allreduce(x, op=hvd.Sum, prescale_factor=0.5, postscale_factor=3.0),
        lambda arrays: [1.5 * sum(arrays)] * SIZE,
    ),
    "broadcast": Case(3, lambda x: hvd.broadcast(x, 1), lambda arrays: [arrays[1]] * SIZE),
    "allgather": Case(3, hvd.allgather, lambda arrays: [jnp.concatenate(arrays)] * SIZE),
    "alltoall": Case(2 * SIZE, hvd.alltoall, lambda arrays: sent(arrays, [2] * SIZE)),
    "alltoall_by_splits": Case(sum(SPLITS), lambda x: hvd.alltoall(x, SPLITS)[0], lambda arrays: sent(arrays, SPLITS)),
    "reducescatter": Case(2 * SIZE, lambda x: hvd.reducescatter(x, op=hvd.Sum), lambda arrays: scattered(sum(arrays))),
    "uneven_reducescatter": Case(
        2 * SIZE + 1,
        lambda x: hvd.reducescatter(x, postscale_factor=2.0),
        lambda arrays: scattered(2 * sum(arrays) / SIZE),
    ),
}


def arrays_of(rows: int, *leading: int) -> list[Any]:
    """Return an array of numbers for each rank, the same on all ranks."""
    return [jax.random.normal(jax.random.key(rank), (*leading, rows, 2), jnp.float64) for rank in range(SIZE)]


def close(result: Any, expected: Any, words: str) -> None:
    """Compare to the last bits: the ranks' numbers are added in another order."""
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-12, err_msg=words)


def transformed(run: Callable[[Any], Any], array: Any, batch: Any) -> dict[str, Any]:
    """Return the results of a collective by itself, in batches and in a scan."""
    return {
        "alone": run(array),
        "vmap": jax.vmap(run)(batch),
        "vmap of the last axis": jax.vmap(run, in_axes=2, out_axes=2)(jnp.moveaxis(batch, 0, 2)),
        "vmap of vmap": jax.vmap(jax.vmap(run))(batch.reshape(2, 2, *array.shape)),
        "scan": jax.lax.scan(lambda carry, x: (carry, run(x)), 0, batch)[1],
    }


def transformed_gradients(own: Callable[[Any], Any], array: Any, batch: Any, direction: Any) -> dict[str, Any]:
    """Return the gradients of a rank's loss, also of a batch and within a scan, and a second derivative."""
    return {
        "grad": jax.grad(own)(array),
        "vmap of grad": jax.vmap(jax.grad(own))(batch),
        "grad of vmap": jax.grad(lambda rows: jax.vmap(own)(rows).sum())(batch),
        "grad of scan": jax.grad(lambda rows: jax.lax.scan(lambda c, x: (c + own(x), None), 0.0, rows)[0])(batch),
        "second derivative": jax.grad(lambda x: (jax.grad(own)(x) * direction).sum())(array),
    }


def check_values(name: str, case: Case) -> None:
    """A collective is right outside and inside of a compiled function, of a scan, of a batch, and of two batches."""
    arrays, batches = arrays_of(case.rows), arrays_of(case.rows, BATCH)

    @jax.jit
    def reference(arrays: list[Any], batches: list[Any]) -> tuple[Any, Any]:
        of_each = [case.reference([batch[number] for batch in batches])[RANK] for number in range(BATCH)]
        return case.reference(arrays)[RANK], jnp.stack(of_each)

    expected, of_each = reference(arrays, batches)
    results = jax.jit(partial(transformed, case.run))(arrays[RANK], batches[RANK])

    close(case.run(arrays[RANK]), expected, f"{name}, eager")
    with warnings.catch_warnings(action="ignore"):  # a result of another size does not take the donated buffer
        close(jax.jit(case.run, donate_argnums=0)(jnp.array(arrays[RANK])), expected, f"{name}, donated")
    close(results["alone"], expected, f"{name}, jit")
    close(results["vmap"], of_each, f"{name}, vmap")
    close(results["vmap of the last axis"], jnp.moveaxis(of_each, 0, 2), f"{name}, vmap of the last axis")
    close(results["vmap of vmap"].reshape(of_each.shape), of_each, f"{name}, vmap of vmap")
    close(results["scan"], of_each, f"{name}, scan")


def check_gradients(name: str, case: Case) -> None:
    """The gradient of the sum of all ranks' losses is right, also of a batch, twice, and within a scan."""
    arrays, batches, directions = arrays_of(case.rows), arrays_of(case.rows, BATCH), arrays_of(case.rows)

    def loss(result: Any) -> Any:
        return (result**3 * (1 + jnp.arange(result.size).reshape(result.shape))).sum()

    def of_all(arrays: list[Any]) -> Any:
        return sum(loss(result) for result in case.reference(arrays))

    @jax.jit
    def reference(arrays: list[Any], batches: list[Any], directions: list[Any]) -> tuple[Any, Any, Any]:
        def along(arrays: list[Any]) -> Any:
            return sum((g * v).sum() for g, v in zip(jax.grad(of_all)(arrays), directions, strict=True))

        of_each = [jax.grad(of_all)([batch[number] for batch in batches])[RANK] for number in range(BATCH)]
        return jax.grad(of_all)(arrays)[RANK], jnp.stack(of_each), jax.grad(along)(arrays)[RANK]

    expected, of_each, second = reference(arrays, batches, directions)
    own = partial(transformed_gradients, lambda array: loss(case.run(array)))
    results = jax.jit(own)(arrays[RANK], batches[RANK], directions[RANK])

    close(results["grad"], expected, f"{name}, grad")
    close(results["vmap of grad"], of_each, f"{name}, vmap of grad")
    close(results["grad of vmap"], of_each, f"{name}, grad of vmap")
    close(results["grad of scan"], of_each, f"{name}, grad of scan")
    close(results["second derivative"], second, f"{name}, second derivative")


def check_dtypes() -> None:
    """Rows of every dtype travel as they are; those that are computed with keep their dtype."""
    for dtype in (jnp.bfloat16, jnp.float16, jnp.float32, jnp.int8, jnp.bool_, jnp.complex64, jnp.float8_e4m3fn):
        own = jnp.full((SIZE, 2), RANK % 2, dtype)
        all_ranks = np.repeat(np.arange(SIZE) % 2, SIZE).astype(dtype)
        gathered = jax.jit(hvd.allgather)(own)
        assert gathered.dtype == dtype, gathered.dtype
        np.testing.assert_array_equal(np.asarray(gathered)[:, 0], all_ranks)
        np.testing.assert_array_equal(np.asarray(jax.jit(hvd.alltoall)(own))[:, 1], all_ranks[::SIZE])
        np.testing.assert_array_equal(np.asarray(jax.jit(lambda x: hvd.broadcast(x, 1))(own)), np.ones((SIZE, 2)))
    kept = jax.jit(lambda x: hvd.reducescatter(x, op=hvd.Sum))(jnp.ones((SIZE, 3), jnp.bfloat16))
    assert (kept.dtype, kept.shape, float(kept[0, 0])) == (jnp.bfloat16, (1, 3), SIZE), kept


def check_trees() -> None:
    """Grouped forms are right on a pytree, with one gradient of its floats and none of its whole numbers."""
    tree = {"a": jnp.arange(2.0 * SIZE) + RANK, "b": [jnp.full((SIZE, 2), RANK)], "empty": jnp.zeros((0, 3))}
    for wrap in (lambda function: function, jax.jit):
        gathered = wrap(hvd.grouped_allgather)(tree)
        close(gathered["a"], np.concatenate([np.arange(2.0 * SIZE) + rank for rank in range(SIZE)]), "gathered")
        assert (SIZE * SIZE, 2) == gathered["b"][0].shape
        assert (0, 3) == gathered["empty"].shape
        kept = wrap(lambda tree: hvd.grouped_reducescatter(tree, op=hvd.Sum))(tree)
        close(kept["a"], SIZE * np.arange(2.0 * RANK, 2 * RANK + 2) + sum(range(SIZE)), "kept")
        assert [[sum(range(SIZE))] * 2] == kept["b"][0].tolist()
    for grouped in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        gradients = jax.jit(jax.grad(lambda tree, run=grouped: run(tree)["a"].sum(), allow_int=True))(tree)
        assert gradients["b"][0].dtype == jax.dtypes.float0
        assert gradients["a"].shape == tree["a"].shape


def check_process_sets() -> None:
    """A compiled function finds its process set again: after others were added, removed, and in the next world."""
    members = [SIZE - 1, 0] if SIZE > 2 else [1]
    part = hvd.add_process_set(members)
    value = jnp.arange(4.0) + RANK
    summed = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=part))
    taken = jax.jit(lambda x: hvd.broadcast(x, SIZE - 1, process_set=part))
    kept = jax.jit(jax.grad(lambda x: hvd.reducescatter(x, op=hvd.Sum, process_set=part).sum()))
    if part.included():
        for _ in range(2):
            close(summed(value), len(members) * np.arange(4.0) + sum(members), "summed in a part")
            close(taken(value), np.arange(4.0) + SIZE - 1, "broadcast in a part")
            close(kept(value), np.ones(4), "gradient in a part")
    else:
        expect(hvd.ConfigError, "is not in process set", lambda: summed(value))
    hvd.remove_process_set(part)
    if RANK in members:
        expect((hvd.ConfigError, jax.errors.JaxRuntimeError), "is not part of the running job", lambda: summed(value))
    hvd.shutdown()
    hvd.init()


def check_next_world_of_sets() -> None:
    """A function that was compiled with a set goes on when the set is part of the next world."""
    pair = hvd.ProcessSet([0, SIZE - 1])
    hvd.shutdown()
    hvd.init(process_sets=[[0], pair] if SIZE > 2 else [[0]])
    if SIZE == 2:
        return
    summed = jax.jit(lambda x: hvd.allreduce(x, op=hvd.Sum, process_set=pair))
    if pair.included():
        close(summed(1.0), 2.0, "first world")
    hvd.shutdown()
    hvd.init(process_sets=[pair])
    if pair.included():
        close(summed(1.0), 2.0, "next world")


def expect(kind: Any, words: str, function: Callable[[], Any]) -> None:
    """Check an error and its words."""
    message = "no error"
    try:
        jax.block_until_ready(function())
    except kind as error:
        message = str(error)
    assert words in message, message


def check_refusals() -> None:
    """No message is sent where an operation has no gradient, no batch, or no fixed shape."""
    x = jnp.ones((SIZE, 2))
    expect(hvd.ConfigError, "has no gradient", lambda: jax.grad(lambda v: hvd.allreduce(v, op=hvd.Max).sum())(x))
    expect(hvd.ConfigError, "op=Adasum", lambda: jax.vmap(lambda v: hvd.allreduce(v, op=hvd.Adasum))(x))
    expect(hvd.ConfigError, "at least one axis", lambda: jax.jit(hvd.allgather)(1.0))
    expect(hvd.ConfigError, "rows equally", lambda: jax.jit(hvd.alltoall)(jnp.ones(SIZE + 1)))
    expect(hvd.ConfigError, "known when", lambda: jax.jit(hvd.alltoall)(x, jnp.ones(SIZE, int)))
    expect(hvd.ConfigError, "add up to", lambda: jax.jit(lambda v: hvd.alltoall(v, [0] * SIZE))(x))
    expect(hvd.ConfigError, "not in process set", lambda: jax.jit(lambda v: hvd.broadcast(v, SIZE))(x))
    expect(hvd.ConfigError, "does not support", lambda: jax.jit(hvd.allreduce)(jnp.ones(2, jnp.complex64)))


def main() -> None:
    """Check all."""
    assert IS_FALLBACK == (hvd.compiled_calls().library is None), hvd.compiled_calls()
    for name, case in CASES.items():
        check_values(name, case)
        check_gradients(name, case)
    check_dtypes()
    check_trees()
    check_refusals()
    check_process_sets()
    check_next_world_of_sets()
    sys.stdout.write("right\n")


main()
