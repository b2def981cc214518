# SPDX-License-Identifier: Apache-2.0
"""Plain data between ranks: numbers, texts, lists, tuples, dicts and arrays of JAX. Data is never executed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ringtune import arrays
from ringtune.arrays import Array, LeafTypes
from ringtune.session.process_sets import ProcessSet, global_process_set

JAX_ARRAY = "jax"


class _JaxLeaves(LeafTypes):
    """Arrays of JAX beside those of numpy."""

    def array_of(self, value: Any) -> tuple[str, Any] | None:
        if isinstance(value, jax.Array):
            return JAX_ARRAY, np.asarray(value)
        return super().array_of(value)

    def leaf_of(self, kind: str, array: Array) -> Any:
        return jnp.asarray(array) if kind == JAX_ARRAY else super().leaf_of(kind, array)


_LEAF_TYPES = _JaxLeaves()


def broadcast_object(
    obj: Any = None, root_rank: int = 0, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Any:
    """Return the root's plain data on every rank; outside of compiled functions.

    Args:
        obj: The data, on the root; ignored elsewhere.
        root_rank: Rank whose data all ranks get.
        name: Key that matches this call across ranks; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the root's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    return arrays.broadcast_object(obj, root_rank, name, process_set, _LEAF_TYPES)


def allgather_object(obj: Any, name: str | None = None, process_set: ProcessSet = global_process_set) -> list[Any]:
    """Return the plain data of all ranks, in rank order; arguments and errors as for `broadcast_object`."""
    return arrays.allgather_object(obj, name, process_set, _LEAF_TYPES)
