# SPDX-License-Identifier: Apache-2.0
"""Allgather, broadcast and alltoall of tensors, with Horovod's names, meanings and signatures.

`ignore_name_scope` is Horovod's: name scopes are no part of the names under which ranks meet.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import tensorflow as tf

from ringtune import arrays
from ringtune.arrays import Array
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Average, world_of

from .autograd import Tensors, apply
from .host import call_host, rows_like, spec_like


@dataclass(frozen=True)
class Allgather:
    """One allgather; see `Collective`."""

    name: str | None
    process_set: ProcessSet
    is_grouped: bool = False

    def forward(self, tensors: Tensors) -> tuple[Tensors, Any]:
        """See `Collective`."""
        specs = [*map(rows_like, tensors), tf.TensorSpec([len(tensors), 2], tf.int64)]
        *results, own_rows = call_host(self._run, tensors, specs)
        return results, own_rows

    def backward(self, saved: Any, gradients: Tensors) -> Tensors:
        """See `Collective`; as in Horovod, the average over the ranks of the gradients of this rank's rows."""
        averaged = _averages(gradients, self.name, self.process_set, is_grouped=self.is_grouped)
        return [gradient[saved[n, 0] : saved[n, 0] + saved[n, 1]] for n, gradient in enumerate(averaged)]

    def _run(self, inputs: list[Array]) -> Sequence[Array]:
        """Return the gathered rows, and for each tensor the first of this rank's rows and how many there are."""
        options: dict[str, Any] = {"name": self.name, "process_set": self.process_set}
        if self.is_grouped:
            gathered = arrays.grouped_allgather(inputs, **options)
        else:
            gathered = [arrays.allgather_async(inputs[0], **options).wait()]
        rank = world_of(self.process_set).rank
        own_rows = [[sum(rows[:rank]), rows[rank]] for _, rows in gathered]
        return [*(joined for joined, _ in gathered), np.array(own_rows, np.int64)]


@dataclass(frozen=True)
class Broadcast:
    """One broadcast; see `Collective`."""

    root_rank: int
    name: str | None
    process_set: ProcessSet

    def forward(self, tensors: Tensors) -> tuple[Tensors, Any]:
        """See `Collective`."""
        return call_host(self._run, tensors, [spec_like(tensor) for tensor in tensors]), None

    def backward(self, saved: Any, gradients: Tensors) -> Tensors:
        """See `Collective`; as in Horovod, the average of the gradients on the root, and zero elsewhere."""
        del saved
        (average,) = _averages(gradients, self.name, self.process_set)
        is_root = world_of(self.process_set).rank == self.process_set.rank_of(self.root_rank)
        return [average if is_root else tf.zeros_like(average)]

    def _run(self, inputs: list[Array]) -> Sequence[Array]:
        return [arrays.broadcast(inputs[0], self.root_rank, name=self.name, process_set=self.process_set)]


@dataclass(frozen=True)
class Alltoall:
    """One alltoall; see `Collective`. It saves the number of rows from each rank."""

    splits: Any
    name: str | None
    process_set: ProcessSet

    def forward(self, tensors: Tensors) -> tuple[Tensors, Any]:
        """See `Collective`; the second result is how many rows came from each rank."""
        given = [] if self.splits is None else [self.splits]
        specs = [rows_like(tensors[0]), tf.TensorSpec([None], tf.int32)]
        results = call_host(self._run, [tensors[0], *given], specs)
        return results, results[1]

    def backward(self, saved: Any, gradients: Tensors) -> Tensors:
        """See `Collective`; gradients go back the way the rows came."""
        name = None if self.name is None else f"{self.name}.gradient"
        return apply(Alltoall(saved, name, self.process_set), gradients[:1])[:1]

    def _run(self, inputs: list[Array]) -> Sequence[Array]:
        splits = inputs[1].tolist() if len(inputs) > 1 else None
        received, rows = arrays.alltoall(inputs[0], splits, name=self.name, process_set=self.process_set)
        return received, np.array(rows, np.int32)


def allgather(
    tensor: Any,
    name: str | None = None,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return every rank's rows in rank order.

    Args:
        tensor: Tensor of any dtype of numbers; the first dimension alone may differ between ranks. A tensor
            without a dimension counts as one row.
        name: Key that matches the ranks' tensors; without one, calls are matched by their order.
        ignore_name_scope: Horovod's; without effect.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If the tensor cannot be taken or this rank is not in the set.
        EngineError: If the world is lost; inside `tf.function`, TensorFlow's error that has its text.
    """
    del ignore_name_scope
    return apply(Allgather(name, process_set), [_rows(tensor)])[0]


def grouped_allgather(
    tensors: Sequence[Any],
    name: str | None = None,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
    process_set: ProcessSet = global_process_set,
) -> list[Any]:
    """Gather several tensors, all together or none; see `allgather`."""
    del ignore_name_scope
    return apply(Allgather(name, process_set, is_grouped=True), [_rows(tensor) for tensor in tensors])


def broadcast(
    tensor: Any,
    root_rank: int,
    name: str | None = None,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return the root's tensor on every rank.

    Args:
        tensor: Tensor of any dtype of numbers; same shape and dtype on all ranks.
        root_rank: Rank of the whole job whose values all ranks get.
        name: See `allgather`.
        ignore_name_scope: Horovod's; without effect.
        process_set: Ranks that take part.
    """
    del ignore_name_scope
    return apply(Broadcast(root_rank, name, process_set), [tensor])[0]


def alltoall(
    tensor: Any,
    splits: Any = None,
    name: str | None = None,
    ignore_name_scope: bool = False,  # noqa: FBT002  (Horovod's signature)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Send rows to every rank and return the received ones.

    Args:
        tensor: Tensor of any dtype of numbers, with at least one dimension; the first may differ between ranks.
        splits: Number of rows for each rank, in rank order; equal parts if left out.
        name: See `allgather`.
        ignore_name_scope: Horovod's; without effect.
        process_set: Ranks that take part.

    Returns:
        The received rows in rank order; with `splits` given, also how many came from each rank, int32.
    """
    del ignore_name_scope
    counts = None if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int32)
    received, rows = apply(Alltoall(counts, name, process_set), [tensor])
    return received if splits is None else (received, rows)


def _rows(value: Any) -> Any:
    tensor = tf.convert_to_tensor(value)
    return tf.reshape(tensor, [1]) if tensor.shape.rank == 0 else tensor


def _averages(gradients: Tensors, name: str | None, process_set: ProcessSet, *, is_grouped: bool = False) -> list[Any]:
    """Return the gradients' averages over the ranks."""
    full_name = None if name is None else f"{name}.gradient"

    def run(inputs: list[Array]) -> Sequence[Array]:
        if is_grouped:
            return arrays.grouped_allreduce(inputs, op=Average, name=full_name, process_set=process_set)
        return [arrays.allreduce(inputs[0], op=Average, name=full_name, process_set=process_set)]

    return call_host(run, gradients, [spec_like(gradient) for gradient in gradients])
