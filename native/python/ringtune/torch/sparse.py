# SPDX-License-Identifier: Apache-2.0
"""Allreduce of sparse tensors, such as the gradients of embeddings: ranks gather each other's indices and values."""

from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Average, ReduceOp, Reduction, Sum, check_reduction, reduction_of, world_of
from ringtune.world.handles import HandleGroup, start_all

from .allgather import Allgather
from .buffers import check_tensor, dtype_number


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: str | None,
    op: ReduceOp,
    process_set: ProcessSet = global_process_set,
    *,
    is_gradient: bool = False,
) -> HandleGroup:
    """Start to combine a sparse tensor over all ranks.

    Args:
        tensor: In COO layout, in CPU memory or on a CUDA device; same shape on all ranks, with as many elements as
            each rank has.
        name: Key that matches the ranks' tensors.
        op: `Average` or `Sum`.
        process_set: Ranks that take part.
        is_gradient: Whether it counts as gradient bytes of the step, which the tuner measures.

    Returns:
        A handle for `synchronize`, which, as in Horovod, may also be called; the result is a new coalesced tensor.

    Raises:
        ConfigError: If the tensor cannot be taken, or `op` is neither.
        EngineError: If the world is lost.
    """
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        raise ConfigError("sparse_allreduce_async needs a sparse tensor in COO layout; use allreduce for dense tensors")
    if op not in {Average, Sum}:
        raise ConfigError(f"op={reduction_of(op=op).op.name.title()} is not supported for sparse tensors; use Average")
    world = world_of(process_set)
    own = tensor.detach().coalesce()
    values = check_tensor("sparse_allreduce_async", own.values())
    check_reduction("sparse_allreduce_async", dtype_number(values.dtype), Reduction(op))
    base = world.handles.name_for("sparse_allreduce", name)
    parts = {"indices": own.indices().t().contiguous(), "values": values}
    handles = start_all(
        handle
        for part, rows in parts.items()
        for handle in Allgather("allgather", f"{base}.{part}", process_set, is_gradient=is_gradient).start([rows])
    )
    divisor = world.size if op == Average else 1

    def finish(results: list[Any]) -> torch.Tensor:
        all_indices, all_values = (result.cpu() for result in results)  # a GPU adds in another order on each rank
        summed = _sparse_tensor(all_indices.t(), all_values, tensor.shape, is_coalesced=False).coalesce()
        return (summed if divisor == 1 else _divided(summed, divisor)).to(values.device)

    return HandleGroup(handles, finish)


def _divided(tensor: torch.Tensor, divisor: int) -> torch.Tensor:
    values = tensor.values()
    rounding = None if values.dtype.is_floating_point else "trunc"
    divided = torch.div(values, divisor, rounding_mode=rounding)
    return _sparse_tensor(tensor.indices(), divided, tensor.shape, is_coalesced=True)


def _sparse_tensor(
    indices: torch.Tensor, values: torch.Tensor, shape: torch.Size, *, is_coalesced: bool
) -> torch.Tensor:
    """Return a sparse tensor where its values are, whatever torch's default device is."""
    return torch.sparse_coo_tensor(
        indices, values, shape, device=values.device, is_coalesced=is_coalesced or None, check_invariants=False
    )
