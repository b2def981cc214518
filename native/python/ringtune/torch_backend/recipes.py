# SPDX-License-Identifier: Apache-2.0
"""Recipes of calls for the compiled form: the text, and the engine's numbers for dtypes and reduction.

It asks once for each kind of call and all that its text depends on, and makes equal calls alone from then on.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from ringtune.session.submissions import Reduction, Sum
from ringtune.torch.buffers import ENGINE_DTYPES, MOVABLE_DTYPES, dtype_number

from .keys import Key, broadcast_key, exchange_key, gather_key, reduction_key, text_of
from .reductions import plan_of

_MOVED: dict[str, Callable[[Sequence[torch.Tensor], int], Key]] = {
    "all_gather_into_tensor": lambda tensors, _root: gather_key(tensors),
    "all_to_all_single": lambda tensors, _root: exchange_key(tensors[0]),
    "broadcast": lambda tensors, root: broadcast_key(tensors[0], root),
}
_MOVABLE = frozenset(MOVABLE_DTYPES.values())


class Recipe(NamedTuple):
    """Request to the engine, but for memory and shapes.

    Attributes:
        text: Text of the call, as ranks compare it.
        dtypes: The engine's number for each tensor.
        reduction: The engine's number of the operation.
        prescale: Factor of the values before it.
        postscale: Factor of the results.
    """

    text: str
    dtypes: list[int]
    reduction: int
    prescale: float
    postscale: float


def recipe(kind: str, operation: Any, tensors: Sequence[torch.Tensor], root: int) -> Recipe | None:
    """Return how to make a call.

    Args:
        kind: Kind of the call, as texts begin.
        operation: Torch's reduction, where the call has one.
        tensors: The call's inputs, dense on the CPU.
        root: Rank whose tensor is sent, where there is one.

    Returns:
        None where the engine has no such reduction, or not on such elements: Python's form makes it of others.

    Raises:
        ConfigError: If the dtype does not take the operation.
    """
    moved = _MOVED.get(kind)
    if moved is not None:
        is_known = all(tensor.dtype in _MOVABLE for tensor in tensors)
        return _recipe(text_of(moved(tensors, root)), tensors, Reduction(Sum)) if is_known else None
    plans = [plan_of(operation, tensor.dtype) for tensor in tensors]
    reduction = plans[0].reduction
    if reduction is None or any(tensor.dtype not in ENGINE_DTYPES for tensor in tensors):
        return None
    return _recipe(text_of(reduction_key(kind, plans[0].name, tensors)), tensors, reduction)


def _recipe(text: str, tensors: Sequence[torch.Tensor], reduction: Reduction) -> Recipe:
    dtypes = [dtype_number(tensor.dtype) for tensor in tensors]
    return Recipe(text, dtypes, int(reduction.op), reduction.prescale, reduction.postscale)
