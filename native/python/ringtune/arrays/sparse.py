# SPDX-License-Identifier: Apache-2.0
"""Allreduce of row-sparse arrays, such as the gradients of embeddings: ranks gather each other's rows."""

from typing import Any

import numpy as np

from ringtune.errors import ConfigError
from ringtune.session.submissions import Average, ReduceOp, Sum, reduction_of
from ringtune.world.handles import HandleGroup, start_all
from ringtune.world.world import World

from .buffers import Array
from .movement import Gathered, submit_allgather

Slices = tuple[Array, Array]
"""Values, and the rows of the dense array that they belong to; a row that is named twice has the values' sum."""


def submit_sparse_allreduce(
    world: World, name: str, values: Any, indices: Any, op: ReduceOp, *, is_gradient: bool = False
) -> HandleGroup:
    """Start to combine row-sparse arrays under a name that is final.

    Args:
        world: World whose ranks take part.
        name: Key that matches this call across ranks.
        values: Shape (rows, ...); as many rows as this rank has.
        indices: Shape (rows,): where each of them stands.
        op: `Average` or `Sum`.
        is_gradient: Whether it counts as gradient bytes of the step.

    Returns:
        A handle whose result is `Slices`; rows that several ranks brought are in it several times.

    Raises:
        ConfigError: If `op` is neither, or an array cannot be taken.
        EngineError: If the world is lost.
    """
    check_sparse_reduction(op)
    parts = {"values": values, "indices": indices}
    handles = start_all(
        submit_allgather(world, f"{name}.{part}", array, is_gradient=is_gradient) for part, array in parts.items()
    )

    def finish(results: list[Gathered]) -> Slices:
        (all_values, _), (all_indices, _) = results
        if op == Average:
            return _divided(all_values, world.size), all_indices
        return all_values, all_indices

    return HandleGroup(handles, finish)


def _divided(values: Array, ranks: int) -> Array:
    """Return an average; of integers it is truncated, as that of dense arrays."""
    if not np.issubdtype(values.dtype, np.integer):
        quotient: Array = (values / np.asarray(ranks, values.dtype)).astype(values.dtype)
        return quotient
    wide = values.astype(np.int16) if values.dtype.itemsize == 1 else values  # so that there is room for `ranks`
    rounded_down, rest = np.divmod(wide, np.asarray(ranks, wide.dtype))
    truncated: Array = (rounded_down + ((rounded_down < 0) & (rest != 0))).astype(values.dtype)
    return truncated


def check_sparse_reduction(op: ReduceOp) -> None:
    """Refuse an operation that sparse arrays do not have; raises `ConfigError`."""
    if op not in {Average, Sum}:
        raise ConfigError(
            f"op={reduction_of(op=op).op.name.title()} is not supported for sparse gradients; use Average or Sum, or "
            "sparse_as_dense=True"
        )
