# SPDX-License-Identifier: Apache-2.0
"""Checks the collectives of `ringtune.jax`, compiled, transformed and neither; each rank prints the passed checks.

Argument: `fallback`, where the library of asynchronous calls is hidden.
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

import ringtune.jax as hvd
from ringtune.graph_operations import graph_library
from tests.collectives.cases import bound
from tests.collectives.jax_front_end import CompiledJax, JaxFrontEnd

IS_FALLBACK = "fallback" in sys.argv
if IS_FALLBACK:
    graph_library.library_folders = lambda: iter([Path("/nowhere")])
jax.config.update("jax_enable_x64", True)
hvd.init()
rank, size = hvd.rank(), hvd.size()
assert IS_FALLBACK == (hvd.compiled_calls().library is None), hvd.compiled_calls()

x = jnp.arange(6.0).reshape(2, 3) + rank
average = np.arange(6.0).reshape(2, 3) + (size - 1) / 2


def check_cases() -> None:
    """The shared cases pass outside and inside of compiled functions."""
    for front in (JaxFrontEnd(), CompiledJax()):
        for case in bound(front).values():
            case()


def check_transformations() -> None:
    """An allreduce is right under `grad`, `scan`, `vmap` and donation."""
    gradient = jax.jit(jax.grad(lambda value: (hvd.allreduce(value) ** 2).sum()))(x)
    np.testing.assert_allclose(gradient, 2 * average)
    _, scanned = jax.jit(
        lambda: jax.lax.scan(lambda carry, v: (carry + 1, hvd.allreduce(v + carry, op=hvd.Sum)), 0.0, jnp.arange(5.0))
    )()
    np.testing.assert_allclose(scanned, [2 * size * step for step in range(5)])
    np.testing.assert_allclose(jax.jit(jax.vmap(lambda row: hvd.allreduce(2 * row)))(x), 2 * average)
    donated = jax.jit(hvd.allreduce, donate_argnums=0)(jnp.array(x))
    np.testing.assert_allclose(donated, average)
    summed = jax.jit(lambda value: (hvd.allreduce(value, op=hvd.Sum), value + 1))(x)  # the input is still needed
    np.testing.assert_allclose(summed[0], size * average)
    np.testing.assert_allclose(summed[1], x + 1)


def check_trees() -> None:
    """A group is a tree of arrays, and its results have the same structure."""
    for wrap in (lambda function: function, jax.jit):
        tree = wrap(lambda value: hvd.grouped_allreduce(value, op=hvd.Sum))({"a": x, "b": [jnp.float32(rank), 2 * x]})
        np.testing.assert_allclose(tree["a"], size * average)
        assert tree["b"][0] == size * (size - 1) / 2


def check_beginnings() -> None:
    """Parameters and plain data of one rank reach all."""
    params = {"w": x, "key": jax.random.key(rank), "step": rank, "rate": np.float32(rank), "table": np.full(2, rank)}
    received = hvd.broadcast_parameters({**params, "name": "adam", "nothing": None}, root_rank=1)
    assert (received["step"], received["name"], received["nothing"]) == (1, "adam", None), received
    assert isinstance(received["step"], int)
    assert received["rate"] == np.float32(1)
    np.testing.assert_array_equal(received["table"], [1, 1])
    np.testing.assert_array_equal(jax.random.key_data(received["key"]), jax.random.key_data(jax.random.key(1)))
    assert hvd.broadcast_object({"epoch": rank, "x": x}, 1)["epoch"] == 1
    assert [item["rank"] for item in hvd.allgather_object({"rank": rank})] == list(range(size))


def check_order() -> None:
    """Calls without a data dependence reach the ranks in one order; where shapes differ, names match them."""
    step = jax.jit(lambda value: hvd.allreduce(value.sum(), op=hvd.Sum, name="total"))
    lengths = np.random.default_rng(rank).choice([1_000, 300_000], 60)
    results = [step(jnp.full(length, number / length)) for number, length in enumerate(lengths)]
    np.testing.assert_allclose(
        [float(result) for result in results], [size * number for number in range(60)], rtol=1e-6
    )


def check_next_world() -> None:
    """A function that was compiled in one world goes on in the next."""
    again = jax.jit(hvd.allreduce)
    np.testing.assert_allclose(again(x), average)
    hvd.shutdown()
    hvd.init()
    np.testing.assert_allclose(again(x), average)


check_cases()
check_transformations()
check_trees()
check_beginnings()
check_order()
check_next_world()
sys.stdout.write("right\n")
