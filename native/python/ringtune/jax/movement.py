# SPDX-License-Identifier: Apache-2.0
"""Allgather, broadcast and alltoall; arguments have their meaning in Horovod.

Shapes are fixed inside of a compiled function: there all ranks have as many rows, and the same splits.
"""

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ringtune import arrays
from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import check_splits, world_of

from . import calls
from .collective import Collective, Kind, numbered, rows_like_own, traced_name
from .transformations import combined


def allgather(array: Any, *, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Return the arrays of all ranks, one after the other along the first axis.

    Works under `jit`, `grad`, `scan` and `vmap`, like all functions of this module.

    Args:
        array: Array with at least one axis. Outside of compiled functions, ranks may have different numbers of rows.
        name: Key that matches the ranks' arrays; see `allreduce`.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the array cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    if not calls.is_traced(array):
        return jnp.asarray(arrays.allgather(np.asarray(array), name=name, process_set=process_set))
    names, rows = (traced_name("allgather", name),), (rows_like_own("allgather", array, process_set),)
    return combined([array], Collective(Kind.ALLGATHER, names, process_set, rows_of=rows))[0]


def grouped_allgather(tree: Any, *, name: str | None = None, process_set: ProcessSet = global_process_set) -> Any:
    """Gather every array of a pytree, all of them together; see `allgather`.

    Args:
        tree: Pytree of arrays, with one structure on all ranks.
        name: Key that matches the ranks' pytrees; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Returns:
        A pytree of the same structure.
    """
    leaves, structure = jax.tree_util.tree_flatten(tree)
    if not calls.is_traced(tree):
        gathered = arrays.grouped_allgather([np.asarray(leaf) for leaf in leaves], name=name, process_set=process_set)
        return structure.unflatten([jnp.asarray(rows) for rows, _ in gathered])
    group = traced_name("grouped_allgather", name)
    rows = tuple(rows_like_own("grouped_allgather", leaf, process_set) for leaf in leaves)
    collective = Collective(Kind.ALLGATHER, numbered(group, len(leaves)), process_set, group, rows_of=rows)
    return structure.unflatten(combined(leaves, collective))


def broadcast(
    array: Any, root_rank: int = 0, *, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's array on every rank; errors as for `allgather`.

    Args:
        array: Array of the same shape and dtype on all ranks.
        root_rank: Rank of the whole job whose values all ranks get.
        name: Key that matches the ranks' arrays; see `allreduce`.
        process_set: Ranks that take part.
    """
    if not calls.is_traced(array):
        return jnp.asarray(arrays.broadcast(np.asarray(array), root_rank, name=name, process_set=process_set))
    process_set.rank_of(root_rank)  # raises where there is no such rank
    names = (traced_name("broadcast", name),)
    return combined([array], Collective(Kind.BROADCAST, names, process_set, root_rank=root_rank))[0]


def alltoall(
    array: Any,
    splits: Sequence[int] | None = None,
    *,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send each rank its part of the rows and return the rows that came, by rank; errors as for `allgather`.

    Args:
        array: Array whose rows go to rank 0, to rank 1, and so on.
        splits: Number of rows for each rank, in rank order; equal parts if left out. Inside compiled functions they
            are numbers that are known when the function is compiled, the same on all ranks.
        name: Key that matches the ranks' arrays; see `allreduce`.
        process_set: Ranks that take part.

    Returns:
        The received rows, in rank order; with `splits` given, also how many came from each rank.
    """
    if not calls.is_traced((array, splits)):
        values = np.asarray(array)
        received, counts = arrays.alltoall(values, splits, name=name, process_set=process_set)
        return jnp.asarray(received) if splits is None else (jnp.asarray(received), np.array(counts, np.int32))
    if calls.is_traced(splits):
        raise ConfigError(
            "alltoall needs splits that are known when the function is compiled: plain numbers, no arrays"
        )
    (rows, *_) = rows_like_own("alltoall", array, process_set)
    world = world_of(process_set)
    sent = tuple(check_splits(splits, rows, world.size))
    received_rows = (sent[world.rank],) * world.size
    names = (traced_name("alltoall", name),)
    (received,) = combined(
        [array], Collective(Kind.ALLTOALL, names, process_set, rows_for=(sent,), rows_of=(received_rows,))
    )
    return received if splits is None else (received, np.array(received_rows, np.int32))
