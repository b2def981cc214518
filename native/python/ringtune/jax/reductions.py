# SPDX-License-Identifier: Apache-2.0
"""Allreduce and reducescatter of one array and of a pytree; arguments have their meaning in Horovod."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ringtune import arrays
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import ReduceOp, reduction_of

from . import calls
from .collective import Collective, Kind, numbered, rows_shared, traced_name
from .transformations import combined


def allreduce(
    array: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine an array over all ranks.

    Works under `jit`, `grad` (for Sum and Average), `scan` and `vmap`, which combines the whole batch at once.

    Args:
        array: Array of integers of 8 to 64 bits, float16, bfloat16, float32, float64 or bool.
        op: `Average` (default), `Sum`, `Adasum`, `Min`, `Max` or `Product`.
        name: Key that matches the ranks' arrays; without one, calls are matched by the order in which they are traced,
            or made where no function is traced.
        prescale_factor: Factor of the array before the reduction.
        postscale_factor: Factor of the result after it.
        process_set: Ranks that take part.

    Returns:
        An array of the same shape and dtype.

    Raises:
        ConfigError: If the array cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    if not calls.is_traced(array):
        result = arrays.allreduce(
            np.asarray(array),
            op=op,
            name=name,
            prescale_factor=prescale_factor,
            postscale_factor=postscale_factor,
            process_set=process_set,
        )
        return jnp.asarray(result)
    reduction = reduction_of(None, op, prescale_factor, postscale_factor)
    names = (traced_name("allreduce", name),)
    return combined([array], Collective(Kind.ALLREDUCE, names, process_set, reduction=reduction))[0]


def grouped_allreduce(
    tree: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine every array of a pytree over all ranks; see `allreduce`. The arrays are fused into few messages.

    Args:
        tree: Pytree of arrays, with one structure on all ranks.
        op: See `allreduce`.
        name: Key that matches the ranks' pytrees; without one, calls are matched by their order.
        prescale_factor: See `allreduce`.
        postscale_factor: See `allreduce`.
        process_set: Ranks that take part.

    Returns:
        A pytree of the same structure.
    """
    leaves, structure = jax.tree_util.tree_flatten(tree)
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    if not calls.is_traced(tree):
        results = arrays.grouped_allreduce(
            [np.asarray(leaf) for leaf in leaves], op=op, name=name, process_set=process_set, **factors
        )
        return structure.unflatten([jnp.asarray(result) for result in results])
    group = traced_name("grouped_allreduce", name)
    names, reduction = numbered(group, len(leaves)), reduction_of(None, op, **factors)
    return structure.unflatten(combined(leaves, Collective(Kind.ALLREDUCE, names, process_set, group, reduction)))


def reducescatter(
    array: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine an array over all ranks and return this rank's part of the rows, one row more on the first ranks.

    Works under the same transformations as `allreduce`.

    Args:
        array: Array of at least one axis, of the same shape on all ranks; see `allreduce` for dtypes.
        op: `Average` (default), `Sum`, `Min`, `Max` or `Product`.
        name: See `allreduce`.
        prescale_factor: See `allreduce`.
        postscale_factor: See `allreduce`.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the array cannot be taken or this rank is not in the set.
        EngineError: If the world is lost.
    """
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    if not calls.is_traced(array):
        return jnp.asarray(
            arrays.reducescatter(np.asarray(array), op=op, name=name, process_set=process_set, **factors)
        )
    collective = Collective(
        Kind.REDUCESCATTER,
        (traced_name("reducescatter", name),),
        process_set,
        reduction=reduction_of(None, op, **factors),
        rows_of=(rows_shared("reducescatter", array, process_set),),
    )
    return combined([array], collective)[0]


def grouped_reducescatter(
    tree: Any,
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine and scatter every array of a pytree, all of them together; see `reducescatter`.

    Args:
        tree: Pytree of arrays, with one structure on all ranks.
        op: See `reducescatter`.
        name: Key that matches the ranks' pytrees; without one, calls are matched by their order.
        prescale_factor: See `allreduce`.
        postscale_factor: See `allreduce`.
        process_set: Ranks that take part.

    Returns:
        A pytree of the same structure.
    """
    leaves, structure = jax.tree_util.tree_flatten(tree)
    factors = {"prescale_factor": prescale_factor, "postscale_factor": postscale_factor}
    if not calls.is_traced(tree):
        results = arrays.grouped_reducescatter(
            [np.asarray(leaf) for leaf in leaves], op=op, name=name, process_set=process_set, **factors
        )
        return structure.unflatten([jnp.asarray(result) for result in results])
    group = traced_name("grouped_reducescatter", name)
    collective = Collective(
        Kind.REDUCESCATTER,
        numbered(group, len(leaves)),
        process_set,
        group,
        reduction_of(None, op, **factors),
        rows_of=tuple(rows_shared("grouped_reducescatter", leaf, process_set) for leaf in leaves),
    )
    return structure.unflatten(combined(leaves, collective))
