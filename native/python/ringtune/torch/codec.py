# SPDX-License-Identifier: Apache-2.0
"""Plain data with tensors, arrays and numbers of numpy in it to JSON and back; see `ringtune.system.plain_data`.

Each leaf travels in a *carrier*: a tensor as it is, all else as a tensor of bytes.
"""

import math
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.system import plain_data
from ringtune.system.numpy_leaves import dtype_of, numpy_bytes, numpy_leaf, numpy_value
from ringtune.system.plain_data import Leaf, MakeLeaf

from .buffers import MOVABLE_DTYPES, device_copy_of, host_copy_of

TENSOR = "tensor"
CUDA_TENSOR = "cuda tensor"  # arrives on the receiving rank's current device

_NAMES = {dtype: name for name, dtype in MOVABLE_DTYPES.items()}


def encode(value: Any) -> tuple[bytes, list[torch.Tensor]]:
    """Return JSON for plain data, and the carriers of its leaves in the order of their numbers.

    Raises:
        ConfigError: If the data holds anything else than plain data, arrays and numbers of numpy, and dense tensors in
            CPU memory or on a CUDA device.
    """
    text, leaves = plain_data.encode(value, _describe)
    return text, [_carrier_of(leaf) for leaf in leaves]


def decode(text: bytes, make_leaf: MakeLeaf) -> Any:
    """Return the data that `encode` was given; see `plain_data.decode`."""
    return plain_data.decode(text, make_leaf)


def empty_carrier(leaf: Leaf) -> torch.Tensor:
    """Return memory for a leaf's carrier.

    Raises:
        ConfigError: If this process does not know the leaf's dtype.
    """
    if leaf.kind in {TENSOR, CUDA_TENSOR}:
        dtype = MOVABLE_DTYPES.get(leaf.dtype)
        if dtype is None:
            raise ConfigError(f"this rank's torch does not know {leaf.dtype}; use one version of torch on all ranks")
        return torch.empty(leaf.shape, dtype=dtype, device="cpu")
    return torch.empty(math.prod(leaf.shape) * dtype_of(leaf).itemsize, dtype=torch.uint8, device="cpu")


def leaf_of(leaf: Leaf, carrier: torch.Tensor) -> Any:
    """Return the tensor, array or number that a carrier brought, without a copy of arrays and of tensors on the CPU."""
    if leaf.kind == CUDA_TENSOR:
        return device_copy_of(carrier)
    return carrier if leaf.kind == TENSOR else numpy_value(leaf, carrier.numpy())


def bytes_of(text: bytes) -> torch.Tensor:
    """Return bytes as a tensor."""
    return (
        torch.frombuffer(bytearray(text), dtype=torch.uint8)
        if text
        else torch.empty(0, dtype=torch.uint8, device="cpu")
    )


def _carrier_of(leaf: Any) -> torch.Tensor:
    if not isinstance(leaf, torch.Tensor):
        return bytes_of(numpy_bytes(leaf))
    return host_copy_of(leaf) if leaf.is_cuda else leaf.detach()


def _describe(value: Any) -> Leaf | None:
    if not isinstance(value, torch.Tensor):
        return numpy_leaf(value)
    is_readable = value.device.type == "cpu" or value.is_cuda
    if value.dtype not in _NAMES or not is_readable or value.layout is not torch.strided:
        raise ConfigError(f"a {value.layout} tensor of {value.dtype} on {value.device} cannot be sent to other ranks")
    return Leaf(CUDA_TENSOR if value.is_cuda else TENSOR, _NAMES[value.dtype], tuple(value.shape))
