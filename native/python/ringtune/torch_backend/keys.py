# SPDX-License-Identifier: Apache-2.0
"""Keys of calls: the kind, and all that must be equal on every rank. A key becomes the text that ranks compare."""

from collections.abc import Sequence
from typing import Any

import torch

Key = tuple[Any, ...]


def reduction_key(kind: str, operation: str, tensors: Sequence[torch.Tensor]) -> Key:
    """Return the key of a call that combines tensors; `operation` is torch's name of the reduction."""
    if len(tensors) == 1:
        return (kind, operation, tensors[0].dtype, tuple(tensors[0].shape))
    return (kind, operation, *((tensor.dtype, tuple(tensor.shape)) for tensor in tensors))


def gather_key(inputs: Sequence[torch.Tensor]) -> Key:
    """Return the key of a call that gathers each tensor into one that has room for all ranks' elements."""
    return ("all_gather_into_tensor", *((given.dtype, tuple(given.shape)) for given in inputs))


def broadcast_key(tensor: torch.Tensor, root: int) -> Key:
    """Return the key of a broadcast."""
    return ("broadcast", tensor.dtype, tensor.numel(), "from", root)


def exchange_key(given: torch.Tensor) -> Key:
    """Return the key of an all-to-all of one tensor, whose parts may differ between ranks."""
    return ("all_to_all_single", given.dtype)


def text_of(key: Key) -> str:
    """Return the text of a call that ranks compare."""
    return " ".join(str(part) for part in key)
