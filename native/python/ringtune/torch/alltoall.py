# SPDX-License-Identifier: Apache-2.0
"""Alltoall: every rank sends some of its rows to every rank. Horovod's names and meanings."""

from collections.abc import Sequence

import torch

from ringtune import _engine
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import check_splits, start_alltoall, world_of
from ringtune.world.handles import Handle

from .autograd import Tensors, apply
from .buffers import check_movable, rows_of, tensor_of
from .untraced import untraced

Splits = Sequence[int] | torch.Tensor


class Alltoall:
    """Request for an alltoall, and after it how many rows came from each rank."""

    def __init__(self, operation: str, splits: Splits | None, name: str | None, process_set: ProcessSet) -> None:
        """Describe the call; see `Allreduce`."""
        self._operation = operation
        self._splits = splits
        self._name = name
        self._process_set = process_set
        self._received: list[int] = []

    def start(self, tensor: torch.Tensor) -> Handle:
        """Submit the tensor; the handle's result is the rows received."""
        world = world_of(self._process_set)
        source = rows_of(self._operation, check_movable(self._operation, tensor))
        splits = self._splits.tolist() if isinstance(self._splits, torch.Tensor) else self._splits
        counts = check_splits(splits, source.shape[0], world.size)

        def finish(result: _engine.Result | None) -> torch.Tensor:
            received = tensor_of(result, source)
            self._received = [] if result is None else list(result.rows)
            return received

        return start_alltoall(world, world.handles.name_for(self._operation, self._name), source, counts, finish)

    @property
    def received_splits(self) -> torch.Tensor:
        """Number of rows from each rank; like the splits where these are a tensor, else int32 in CPU memory."""
        splits = self._splits if isinstance(self._splits, torch.Tensor) else None
        dtype, device = (torch.int32, torch.device("cpu")) if splits is None else (splits.dtype, splits.device)
        return torch.tensor(self._received, dtype=dtype, device=device)

    def forward(self, tensors: Tensors) -> Tensors:
        """See `Collective`."""
        return (self.start(tensors[0]).wait(),)

    def backward(self, gradients: Tensors) -> Tensors:
        """See `Collective`; gradients go back the way the rows came."""
        name = None if self._name is None else f"{self._name}.gradient"
        return apply(Alltoall(f"{self._operation}.gradient", self._received, name, self._process_set), gradients)


class _WithSplits(Handle):
    """An alltoall's handle whose result is the rows and how many came from each rank."""

    __slots__ = ("_collective", "_handle")

    def __init__(self, collective: Alltoall, handle: Handle) -> None:
        self._collective = collective
        self._handle = handle

    def poll(self) -> bool:
        return self._handle.poll()

    def wait(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._handle.wait(), self._collective.received_splits


@untraced
def alltoall_async(
    tensor: torch.Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Start to send rows to every rank, and to receive theirs.

    Args:
        tensor: Any dtype but quantized ones, in CPU memory or on a CUDA device, of at least one dimension; the first
            may differ between ranks. It must not change before `synchronize`.
        splits: Number of rows for each rank, in rank order; equal parts if left out.
        name: Key that matches the ranks' tensors.
        process_set: Ranks that take part.

    Returns:
        A handle; `synchronize` returns the received rows, in rank order, and how many came from each rank.

    Raises:
        ConfigError: If the tensor cannot be taken, the splits do not fit or this rank is not in the set.
        EngineError: If the world is lost.
    """
    collective = Alltoall("alltoall", splits, name, process_set)
    return _WithSplits(collective, collective.start(tensor))


@untraced
def alltoall(
    tensor: torch.Tensor,
    splits: Splits | None = None,
    name: str | None = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Send rows to every rank and return the received ones, differentiably; see `alltoall_async`.

    Returns:
        The received rows, in rank order; with `splits` given, also how many came from each rank.
    """
    collective = Alltoall("alltoall", splits, name, process_set)
    (received,) = apply(collective, [check_movable("alltoall", tensor)])
    return received if splits is None else (received, collective.received_splits)
