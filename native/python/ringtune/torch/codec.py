# SPDX-License-Identifier: Apache-2.0
"""Plain data with tensors in it to JSON and back; see `ringtune.plain_data`."""

from collections.abc import Callable
from typing import Any

import torch

from ringtune import plain_data
from ringtune.errors import ConfigError
from ringtune.plain_data import Leaf

from .buffers import ENGINE_DTYPES

MakeTensor = Callable[[int, torch.dtype, tuple[int, ...]], torch.Tensor]

TENSOR = "tensor"

_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in ENGINE_DTYPES}


def encode(value: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Return JSON for plain data, and the tensors in it in the order of their numbers.

    Raises:
        ConfigError: If the data holds anything else than plain data and dense tensors in CPU memory.
    """
    return plain_data.encode(value, _tensor_leaf)


def decode(text: bytes, make_tensor: MakeTensor) -> Any:
    """Return the data that `encode` was given.

    Args:
        text: From `encode`.
        make_tensor: Called with number, dtype and shape for each tensor, in the order of the numbers.

    Raises:
        ConfigError: If the text is not from `encode`.
    """
    return plain_data.decode(text, lambda number, leaf: make_tensor(number, _DTYPES[leaf.dtype], leaf.shape))


def _tensor_leaf(value: Any) -> Leaf | None:
    if not isinstance(value, torch.Tensor):
        return None
    name = str(value.dtype).removeprefix("torch.")
    if name not in _DTYPES or value.device.type != "cpu" or value.layout is not torch.strided:
        raise ConfigError(f"a {value.layout} tensor of {value.dtype} on {value.device} cannot be sent to other ranks")
    return Leaf(TENSOR, name, tuple(value.shape))
