# SPDX-License-Identifier: Apache-2.0
"""Plain data between ranks: numbers, texts, lists, tuples, dicts, arrays and tensors. Data is never executed.

`session` is Horovod's, of TensorFlow 1; these functions run where TensorFlow runs eagerly.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ringtune import arrays
from ringtune.arrays import Array, LeafTypes
from ringtune.session.process_sets import ProcessSet, global_process_set

TENSOR = "tensor"


class _TensorLeaves(LeafTypes):
    """Eager tensors beside arrays."""

    def array_of(self, value: Any) -> tuple[str, Any] | None:
        if tf.is_tensor(value) and hasattr(value, "numpy"):
            return TENSOR, value.numpy()
        return super().array_of(value)

    def leaf_of(self, kind: str, array: Array) -> Any:
        return tf.convert_to_tensor(array) if kind == TENSOR else super().leaf_of(kind, array)


_LEAF_TYPES = _TensorLeaves()


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    session: None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's plain data on every rank.

    Args:
        obj: The data, on the root; ignored elsewhere.
        root_rank: Rank whose data all ranks get.
        session: Horovod's; without effect.
        name: Key that matches this call across ranks; without one, calls are matched by their order.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the root's data holds anything else than plain data; raised on every rank.
        EngineError: If the world is lost.
    """
    del session
    return arrays.broadcast_object(obj, root_rank, name, process_set, _LEAF_TYPES)


def broadcast_object_fn(
    root_rank: int = 0, session: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> Callable[[Any], Any]:
    """Return a function of one argument that is `broadcast_object` with these options; `session` is Horovod's."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any, session: None = None, name: str | None = None, process_set: ProcessSet = global_process_set
) -> list[Any]:
    """Return every rank's plain data, in rank order; see `broadcast_object`."""
    del session
    return arrays.allgather_object(obj, name, process_set, _LEAF_TYPES)
