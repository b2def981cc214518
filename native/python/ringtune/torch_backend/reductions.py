# SPDX-License-Identifier: Apache-2.0
"""Torch's reductions in the engine's terms; those that the engine has not are made of gathered tensors."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch.distributed import ReduceOp

from ringtune.errors import ConfigError
from ringtune.session.submissions import Average, Max, Min, Product, Reduction, Sum
from ringtune.torch.buffers import ENGINE_DTYPES

Combine = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


class Plan(NamedTuple):
    """Plan of a reduction: the engine's operation, or a function that joins gathered tensors.

    Attributes:
        name: Torch's name of the operation, with the factor where there is one.
        reduction: The engine's; None where `combine` serves.
        combine: Joins the elements of one rank more; None where the engine reduces.
        factor: Tensor that is multiplied with every rank's before; None for none.
    """

    name: str
    reduction: Reduction | None = None
    combine: Combine | None = None
    factor: torch.Tensor | None = None


_PLANS = {
    ReduceOp.SUM: Plan("SUM", Reduction(Sum)),
    ReduceOp.AVG: Plan("AVG", Reduction(Average)),
    ReduceOp.PRODUCT: Plan("PRODUCT", Reduction(Product)),
    ReduceOp.MIN: Plan("MIN", Reduction(Min)),
    ReduceOp.MAX: Plan("MAX", Reduction(Max)),
    ReduceOp.BAND: Plan("BAND", combine=torch.bitwise_and),
    ReduceOp.BOR: Plan("BOR", combine=torch.bitwise_or),
    ReduceOp.BXOR: Plan("BXOR", combine=torch.bitwise_xor),
}
_COMPLEX_TAKES = frozenset({"SUM", "AVG", "PREMUL_SUM"})


def plan_of(operation: Any, dtype: torch.dtype) -> Plan:
    """Return how to reduce tensors of a dtype.

    Args:
        operation: Torch's `ReduceOp`.
        dtype: Dtype of the tensors.

    Raises:
        ConfigError: If the dtype does not take the operation.
    """
    kind = getattr(operation, "op", operation)
    plan = _PLANS.get(kind)
    if plan is None:
        if kind != ReduceOp.PREMUL_SUM:
            raise ConfigError(f"the backend ringtune does not know the reduction {kind}")
        plan = _premultiplied(operation)
    _check_dtype(plan, dtype)
    return plan


def _check_dtype(plan: Plan, dtype: torch.dtype) -> None:
    if plan.combine is not None:
        if dtype.is_floating_point or dtype.is_complex:
            raise ConfigError(f"Cannot use ReduceOp.{plan.name} with non-integral dtype: {dtype}")
    elif dtype.is_complex:
        if plan.name.split("(")[0] not in _COMPLEX_TAKES:
            raise ConfigError(f"ReduceOp.{plan.name} does not take {dtype}; complex numbers have no order")
    elif dtype not in ENGINE_DTYPES:
        raise ConfigError(f"Invalid scalar type {dtype}: the engine reduces {', '.join(map(str, ENGINE_DTYPES))}")


def _premultiplied(operation: Any) -> Plan:
    factor = operation.factor
    if isinstance(factor, torch.Tensor):
        return Plan("PREMUL_SUM(tensor)", Reduction(Sum), factor=factor)
    return Plan(f"PREMUL_SUM({factor!r})", Reduction(Sum, prescale=float(factor)))


def as_reals(memory: torch.Tensor) -> torch.Tensor:
    """Return dense memory of complex numbers as memory of their parts; other memory as it is."""
    return torch.view_as_real(memory) if memory.dtype.is_complex else memory
