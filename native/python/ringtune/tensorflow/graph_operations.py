# SPDX-License-Identifier: Apache-2.0
"""The operations that submit gradients from inside a graph as soon as they are computed, where they have been built.

A step begins with one call to the host, which returns the engine's door: so a traced graph goes on in the world that is
there when it runs. Neither operation has a gradient, like a numpy function.
"""

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from ringtune.errors import ConfigError
from ringtune.graph_operations.tensorflow_op import HOW_TO_BUILD, tensorflow_library
from ringtune.session.submissions import REDUCIBLE, Group, Reduction, check_reduction, reducible_number
from ringtune.system.console import Console
from ringtune.world.world import World

from .host import call_host


class GraphOperations(NamedTuple):
    """The compiled operations, or the reason why they cannot be used.

    Attributes:
        module: Module with a function for each operation; None where they cannot be used.
        complaint: Reason why built operations cannot be used; empty where there is none.
    """

    module: Any
    complaint: str = ""

    def open_door(self, world: Callable[[], World]) -> Any:
        """Return the tensor by which the operations of one step find the engine.

        Args:
            world: Called when the graph runs.
        """
        (door,) = call_host(
            lambda _: [np.array(world().engine.submission_door(), np.int64)], [], [tf.TensorSpec([], tf.int64)]
        )
        return door

    def allreduce_gradient(self, door: Any, name: str, tensor: Any, reduction: Reduction, group: Group) -> Any:
        """Return a gradient combined over the ranks.

        Args:
            door: See `open_door`.
            name: Key that matches the ranks' gradients.
            tensor: Tensor of a dtype that `can_take` accepts.
            reduction: Operation that combines the ranks' values.
            group: Group of operations that are reduced together, if it belongs to one.

        Raises:
            ConfigError: If the dtype does not take the operation.
        """
        dtype = reducible_number(name, tensor.dtype.name)
        check_reduction(name, dtype, reduction)
        return self.module.ringtune_allreduce(
            door=door,
            tensor=tensor,
            scales=tf.constant([reduction.prescale, reduction.postscale], tf.float64),
            tensor_name=name,
            dtype_number=dtype,
            reduction=int(reduction.op),
            is_gradient=True,
            group=group.name,
            group_size=group.size,
        )

    def mark_step(self, door: Any, results: Sequence[Any]) -> None:
        """Mark the end of the step for the tuner, once all results are there."""
        self.module.ringtune_mark_step(door=door, results=list(results))


def can_take(dtype: tf.DType) -> bool:
    """Return whether the operations take tensors of a dtype; for others the host raises the error."""
    return dtype.name in REDUCIBLE


@cache
def graph_operations() -> GraphOperations:
    """Return the operations of this environment; looks once."""
    try:
        module = tensorflow_library(tf).find()
    except ConfigError as error:
        return GraphOperations(None, f"gradients go through numpy functions: {error}; {HOW_TO_BUILD}")
    if module is not None:
        tf.no_gradient("RingtuneAllreduce")
    return GraphOperations(module)


@cache
def warn_once(console: Console, text: str) -> None:
    """Write a line for people, once in this process."""
    console.warning(text)
