# SPDX-License-Identifier: Apache-2.0
"""Parameters of one rank on all ranks, at the beginning of a training or after a checkpoint was loaded."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from ringtune.arrays import broadcast_async
from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.world.handles import start_all, wait_for_all

from . import calls


def broadcast_parameters(params: Any, root_rank: int = 0, *, process_set: ProcessSet = global_process_set) -> Any:
    """Return the root's pytree on every rank: parameters, an optimizer's state, or a whole train state.

    Args:
        params: Pytree of arrays and numbers with one structure on all ranks. Leaves that are neither stay as they are.
        root_rank: Rank whose values all ranks get.
        process_set: Ranks that take part.

    Raises:
        ConfigError: Inside a compiled function, or if there is no such rank. No data was sent.
        MismatchError: If shapes or dtypes differ between ranks.
        EngineError: If the world is lost.
    """
    if calls.is_traced(params):
        raise ConfigError("broadcast_parameters is for the time before training; call it outside of compiled functions")
    paths, structure = jax.tree_util.tree_flatten_with_path(params)
    leaves = [leaf for _, leaf in paths]
    kinds = (jax.Array, np.ndarray, np.generic, int, float, bool)
    positions = [position for position, leaf in enumerate(leaves) if isinstance(leaf, kinds)]
    handles = start_all(
        broadcast_async(
            _plain(leaves[position]),
            root_rank,
            name=f"parameter{jax.tree_util.keystr(paths[position][0])}",
            process_set=process_set,
        )
        for position in positions
    )
    for position, result in zip(positions, wait_for_all(handles), strict=True):
        leaves[position] = _like(leaves[position], result)
    return structure.unflatten(leaves)


def _plain(leaf: Any) -> Any:
    """Return a leaf's values; those of a random key are its numbers."""
    if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return np.asarray(jax.random.key_data(leaf))
    return np.asarray(leaf)


def _like(leaf: Any, result: Any) -> Any:
    """Return values that came as the kind of leaf that they are on this rank."""
    if not isinstance(leaf, jax.Array):
        return (
            result
            if isinstance(leaf, np.ndarray)
            else result.dtype.type(result)[()]
            if isinstance(leaf, np.generic)
            else result.item()
        )
    if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(jnp.asarray(result), impl=jax.random.key_impl(leaf))
    return jax.device_put(result, leaf.sharding)
