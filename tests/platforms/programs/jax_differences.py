# SPDX-License-Identifier: Apache-2.0
"""Compiled functions that differ between ranks: in the order of their collectives, in shapes, in the world they run in.

Each rank prints `right` at the end. The argument `dead` lets rank 1 die between two collectives of a step instead.
"""

import os
import sys
import warnings
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import ringtune.jax as hvd
from ringtune.jax.calls import compiled_calls

hvd.init()
RANK, SIZE = hvd.rank(), hvd.size()


def expect(words: str, function: Callable[[], Any]) -> None:
    """Check the words of the error of a compiled function."""
    message = "no error"
    try:
        jax.block_until_ready(function())
    except jax.errors.JaxRuntimeError as error:
        message = str(error)
    assert words in message, message


def check_orders() -> None:
    """Independent collectives meet by name, where the data of another rank's function put them in another order."""
    for elements in (2, 100_000):

        def in_turn(x: Any) -> tuple[Any, Any]:
            last = hvd.allreduce(x, op=hvd.Sum, name="last")
            return hvd.allgather(x + 0 * last, name="first"), last

        def at_will(x: Any) -> tuple[Any, Any]:
            return hvd.allgather(x, name="first"), hvd.allreduce(x, op=hvd.Sum, name="last")

        first, last = jax.jit(in_turn if RANK == 0 else at_will)(jnp.ones(elements))
        np.testing.assert_array_equal(first, np.ones(SIZE * elements))
        np.testing.assert_array_equal(last, np.full(elements, SIZE))


def check_loops() -> None:
    """The same holds inside of loops, whose bodies XLA runs by themselves."""

    def body(number: Any, x: Any) -> Any:
        if RANK == 0:
            left = hvd.allreduce(x, name="left")
            return left + hvd.allreduce(x + 0 * left, name="right")
        right = hvd.allreduce(x, name="right")
        return right + hvd.allreduce(x + 0 * number, name="left")

    looped = jax.jit(lambda x: jax.lax.fori_loop(0, 5, body, x))(jnp.ones(2))
    np.testing.assert_array_equal(looped, np.full(2, 2.0**5))


def check_shapes() -> None:
    """Every rank hears that shapes, dtypes or rows differ, and the world stays usable."""
    own = jnp.ones(3 + RANK)
    expect("MismatchError: tensor 'allreduce.x'", lambda: jax.jit(lambda v: hvd.allreduce(v, name="x"))(own))
    expect("MismatchError: 'allgather.x' has 3, 4", lambda: jax.jit(lambda v: hvd.allgather(v, name="x"))(own))
    dtype = jnp.float32 if RANK == 0 else jnp.int32
    moved = jax.jit(lambda v: hvd.broadcast(v, 0, name="x"))
    expect("MismatchError: tensor 'broadcast.x'", lambda: moved(jnp.ones(2, dtype)))
    splits = [1, 3] if RANK == 0 else [3, 1]
    sent = jax.jit(lambda v: hvd.alltoall(v, splits, name="x")[0])
    expect("MismatchError: 'alltoall.x' has", lambda: sent(jnp.ones(4)))
    assert SIZE == jax.jit(lambda v: hvd.allreduce(v, op=hvd.Sum))(jnp.float32(1))


def check_fork(step: Callable[[Any], Any]) -> None:
    """A collective of a forked child is refused with the reason, and the parent's compiled functions go on.

    The child does not compile: JAX has no threads there, and waits for them.
    """
    np.testing.assert_array_equal(step(jnp.ones(2)), np.ones(2))
    with warnings.catch_warnings(action="ignore"):
        child = os.fork()
    if child == 0:
        try:
            hvd.allreduce(np.ones(2))
        except hvd.ForkedProcessError:
            os._exit(0)
        os._exit(5)
    assert 0 == os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    np.testing.assert_array_equal(step(jnp.ones(2)), np.ones(2))


def check_smaller_world() -> None:
    """A function whose shapes were made for more ranks says so in a smaller world; the others go on."""
    gathered, summed = jax.jit(hvd.allgather), jax.jit(lambda v: hvd.allreduce(v, op=hvd.Sum))
    kept = jax.jit(lambda v: hvd.reducescatter(v, op=hvd.Sum))
    own = jnp.ones(2 * SIZE)
    jax.block_until_ready([gathered(own), summed(own), kept(own)])
    alone = [hvd.add_process_set([rank]) for rank in range(SIZE)][RANK]
    library = compiled_calls().library
    assert library is not None
    library.ringtune_jax_open(0, alone.world.engine.submission_door(), b"")  # as an init() would
    expect(f"has the shape for {SIZE} ranks, and there are 1", lambda: gathered(own))
    expect("compiled for another world must be compiled again", lambda: kept(own))
    np.testing.assert_array_equal(summed(own), own)


def die_within_a_step() -> None:
    """Let rank 1 end between two collectives of one compiled function."""

    def dying(_: Any) -> Any:
        os._exit(3)

    def step(x: Any) -> Any:
        x = hvd.allgather(x)
        if RANK == 1:
            x = jax.pure_callback(dying, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
        return hvd.reducescatter(x), hvd.broadcast(x, 0)

    expect("PeerLostError: rank 1", lambda: jax.jit(step)(jnp.ones(SIZE)))


def main() -> None:
    """Check all, or end."""
    if "dead" in sys.argv:
        die_within_a_step()
        sys.stdout.write("rank 1 was lost\n")
        return
    check_orders()
    check_loops()
    check_shapes()
    check_fork(jax.jit(hvd.allreduce))
    check_smaller_world()
    sys.stdout.write("right\n")


main()
