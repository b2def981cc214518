# SPDX-License-Identifier: Apache-2.0
"""A process group of `torch.distributed`, by the names of the front ends."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import distributed as dist
from torch.distributed import ReduceOp

from tests.collectives.torch_front_end import TorchFrontEnd


def allreduce_(tensor: torch.Tensor, op: ReduceOp) -> torch.Tensor:
    """Reduce a tensor in place."""
    dist.all_reduce(tensor, op)
    return tensor


def broadcast_(tensor: torch.Tensor, root: int) -> torch.Tensor:
    """Fill a tensor with the root's values."""
    dist.broadcast(tensor, root)
    return tensor


def allgather(tensor: torch.Tensor) -> torch.Tensor:
    """Return all ranks' rows, of which each may have another number."""
    rows = tensor.reshape(1) if tensor.dim() == 0 else tensor
    counts: list[Any] = [torch.empty(1, dtype=torch.int64) for _ in range(dist.get_world_size())]
    dist.all_gather(counts, torch.tensor([len(rows)]))
    parts = [rows.new_empty(int(count), *rows.shape[1:]) for count in counts]
    dist.all_gather(parts, rows)
    return torch.cat(parts)


def reducescatter(tensor: torch.Tensor, op: ReduceOp) -> torch.Tensor:
    """Return this rank's rows of the reduction."""
    parts = list(tensor.tensor_split(dist.get_world_size()))
    part = torch.empty_like(parts[dist.get_rank()])
    dist.reduce_scatter(part, parts, op)
    return part


def alltoall(tensor: torch.Tensor, splits: Sequence[int] | None = None) -> Any:
    """Return the rows that came, and with splits how many from each rank."""
    size = dist.get_world_size()
    sent = torch.tensor([len(tensor) // size] * size if splits is None else splits)
    taken = torch.empty_like(sent)
    dist.all_to_all_single(taken, sent)
    rows = tensor.new_empty(int(taken.sum()), *tensor.shape[1:])
    dist.all_to_all_single(rows, tensor, taken.tolist(), sent.tolist())
    return rows if splits is None else (rows, taken)


def grouped_allreduce_(tensors: list[torch.Tensor], op: ReduceOp) -> list[torch.Tensor]:
    """Reduce tensors in place, those of a dtype in one call."""
    for dtype in {tensor.dtype for tensor in tensors}:
        dist.all_reduce_coalesced([tensor for tensor in tensors if tensor.dtype is dtype], op)
    return tensors


FUNCTIONS = SimpleNamespace(
    size=dist.get_world_size,
    rank=dist.get_rank,
    Average=ReduceOp.AVG,
    Sum=ReduceOp.SUM,
    Min=ReduceOp.MIN,
    Max=ReduceOp.MAX,
    Product=ReduceOp.PRODUCT,
    allreduce=lambda tensor, op: allreduce_(tensor.clone(), op),
    allreduce_=allreduce_,
    broadcast=lambda tensor, root: broadcast_(tensor.clone(), root),
    broadcast_=broadcast_,
    allgather=allgather,
    grouped_allgather=lambda tensors: [allgather(tensor) for tensor in tensors],
    reducescatter=reducescatter,
    grouped_reducescatter=lambda tensors, op: [reducescatter(tensor, op) for tensor in tensors],
    alltoall=alltoall,
    grouped_allreduce=lambda tensors, op=ReduceOp.SUM: grouped_allreduce_([tensor.clone() for tensor in tensors], op),
    grouped_allreduce_=grouped_allreduce_,
)


class GroupFrontEnd(TorchFrontEnd):
    """The default group; see `FrontEnd`. It has no scales, no Adasum, no handles by name and no gradients."""

    hvd: Any = FUNCTIONS
    left_out = frozenset({"scales", "adasum", "mixed", "refusals", "gradients_of_sums", "gradients_of_moves"})
