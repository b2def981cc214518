# SPDX-License-Identifier: Apache-2.0
"""Collectives inside of `jit`, `grad`, `scan` and `vmap`: all of them pass `combined`.

A collective is linear in its arrays, or has no gradient. A batch travels as one array.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import jax
import jax.numpy as jnp

from ringtune.errors import ConfigError
from ringtune.session.submissions import Adasum, Average, Reduction, Sum, world_of

from . import lowering
from .collective import Collective, Kind


def combined(values: Sequence[Any], collective: Collective) -> list[Any]:
    """Return the results of a collective of traced arrays, in their order.

    Args:
        values: The arrays.
        collective: The operation; it fits the arrays.

    Raises:
        ConfigError: If an array cannot be taken, or the rank is not in the set.
    """
    return list(_differentiable(list(values), collective, count(1))) if values else []


@partial(jax.custom_vjp, nondiff_argnums=(1, 2))
def _differentiable(values: list[Any], collective: Collective, backward_passes: "count[int]") -> list[Any]:
    """Call a collective; `backward_passes` numbers those through this call, a second derivative has several at once."""
    del backward_passes
    batched = jax.custom_batching.custom_vmap(lambda *each: _called(each, collective))
    batched.def_vmap(partial(_batch, collective))
    results: list[Any] = batched(*values)
    return results


def _called(values: Sequence[Any], collective: Collective) -> list[Any]:
    world_of(collective.process_set)  # raises where this rank is not in the set, before anything is compiled
    dtypes = [collective.dtype_number(value) for value in values]  # likewise
    return lowering.call(values, dtypes, collective)


def _batch(collective: Collective, _: int, are_batched: Sequence[bool], *values: Any) -> tuple[list[Any], list[bool]]:
    """Run a collective for all rows of a batch at once; the first axis numbers them."""
    if collective.kind is Kind.ALLREDUCE and collective.reduction.op is Adasum:
        raise ConfigError("vmap over an allreduce with op=Adasum is not possible: it weighs whole arrays; use lax.map")
    if collective.keeps_shapes:
        return combined(values, collective), list(are_batched)
    moved = [
        jnp.moveaxis(value, 0, 1) if is_batched else value
        for value, is_batched in zip(values, are_batched, strict=True)
    ]
    results = [
        jnp.moveaxis(result, 1, 0) if is_batched else result
        for result, is_batched in zip(combined(moved, collective), are_batched, strict=True)
    ]
    return results, list(are_batched)


def _forward(values: list[Any], collective: Collective, backward_passes: "count[int]") -> tuple[list[Any], None]:
    return _differentiable(values, collective, backward_passes), None


def _backward(
    collective: Collective, backward_passes: "count[int]", _: None, cotangents: list[Any]
) -> tuple[list[Any]]:
    """Return the arrays' cotangents, by the collective that goes the other way; arrays of integers have none."""
    positions = [p for p, cotangent in enumerate(cotangents) if cotangent.dtype != jax.dtypes.float0]
    back = collective.only(positions).renamed(f"gradient.{next(backward_passes)}")._replace(is_gradient=False)
    returned: list[Any] = [None] * len(cotangents)
    results = _BACKWARD[collective.kind]([cotangents[p] for p in positions], back)
    for position, result in zip(positions, results, strict=True):
        returned[position] = result
    return (returned,)


_differentiable.defvjp(_forward, _backward)


def _from_allreduce(cotangents: list[Any], back: Collective) -> list[Any]:
    """Combine the cotangents alike: every rank's result depends on this rank's array."""
    _require_gradient(back)
    return combined(cotangents, back)


def _from_broadcast(cotangents: list[Any], back: Collective) -> list[Any]:
    """Sum up at the root, whose array made the results of all ranks."""
    totals = combined(cotangents, back._replace(kind=Kind.ALLREDUCE, reduction=Reduction(Sum)))
    # The same operations on all ranks, so that all of them take part in a second derivative. Without the barrier XLA
    # would know the answer, and compile another order of collectives on the root.
    is_root = jax.lax.optimization_barrier(
        jnp.asarray(back.process_set.rank() == back.process_set.rank_of(back.root_rank))
    )
    return [jnp.where(is_root, total, jnp.zeros_like(total)) for total in totals]


def _from_allgather(cotangents: list[Any], back: Collective) -> list[Any]:
    """Sum up the cotangents of this rank's rows, which are in every rank's result."""
    return combined(cotangents, back._replace(kind=Kind.REDUCESCATTER, reduction=Reduction(Sum)))


def _from_alltoall(cotangents: list[Any], back: Collective) -> list[Any]:
    """Send every row back to the rank that it came from."""
    return combined(cotangents, back._replace(rows_for=back.rows_of, rows_of=back.rows_for))


def _from_reducescatter(cotangents: list[Any], back: Collective) -> list[Any]:
    """Gather the cotangents: each rank has those of the rows that it kept."""
    _require_gradient(back)
    size = world_of(back.process_set).size
    op, prescale, postscale = back.reduction
    factor = prescale * postscale / (size if op is Average else 1)
    gathered = combined(cotangents, back._replace(kind=Kind.ALLGATHER))
    return [rows if factor == 1 else rows * jnp.asarray(factor, rows.dtype) for rows in gathered]


_BACKWARD: dict[Kind, Callable[[list[Any], Collective], list[Any]]] = {
    Kind.ALLREDUCE: _from_allreduce,
    Kind.BROADCAST: _from_broadcast,
    Kind.ALLGATHER: _from_allgather,
    Kind.ALLTOALL: _from_alltoall,
    Kind.REDUCESCATTER: _from_reducescatter,
}


def _require_gradient(back: Collective) -> None:
    if back.reduction.op not in (Average, Sum):
        raise ConfigError(
            f"{back.title} with op={back.reduction.op.name.title()} has no gradient; it exists for Sum and Average"
        )
