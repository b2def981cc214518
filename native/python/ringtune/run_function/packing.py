# SPDX-License-Identifier: Apache-2.0
"""Plain data with arrays and tensors in it to a file and back. The file is: length of the text, text, leaves' bytes."""

import importlib
import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np

from ringtune.errors import ConfigError
from ringtune.system import plain_data
from ringtune.system.numpy_leaves import dtype_of, numpy_bytes, numpy_leaf, numpy_value
from ringtune.system.plain_data import Leaf
from ringtune.system.whole_file import whole_file

from .call_folder import MODULE_NAME

TENSOR = "tensor"
PRIVATE_MODULES = frozenset({"__main__", MODULE_NAME})  # the caller's program, and the function's source
_LENGTH = struct.Struct("<Q")


def write_data(path: Path, value: Any) -> None:
    """Write plain data; the file is there as a whole or not at all.

    Raises:
        ConfigError: If the data holds anything else than plain data, arrays of numbers and dense tensors in CPU memory.
        OSError: If it cannot be written.
    """
    text, leaves = plain_data.encode(value, _describe, PRIVATE_MODULES)
    with whole_file(path) as file:
        file.write(_LENGTH.pack(len(text)) + text)
        for leaf in leaves:
            file.write(_bytes_of(leaf))


def read_data(path: Path) -> Any:
    """Return the data that `write_data` wrote; tensors are detached from any graph.

    Raises:
        ConfigError: If the file is not from `write_data`.
        OSError: If it cannot be read.
    """
    with path.open("rb") as file:
        (length,) = _LENGTH.unpack(file.read(_LENGTH.size))
        text = file.read(length)

        def make_leaf(number: int, leaf: Leaf) -> Any:
            del number  # they come in their order
            return _read_leaf(leaf, file.read(_size_of(leaf)))

        return plain_data.decode(text, make_leaf)


def _describe(value: Any) -> Leaf | None:
    found = numpy_leaf(value)
    if found is not None:
        return found
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor):
        return None
    if value.device.type != "cpu" or value.layout is not torch.strided or value.is_quantized:
        raise ConfigError(
            f"a {value.layout} tensor of {value.dtype} on {value.device} cannot be sent to other ranks; dense ones in "
            "CPU memory can: tensor.cpu()"
        )
    return Leaf(TENSOR, str(value.dtype).removeprefix("torch."), tuple(value.shape))


def _bytes_of(leaf: Any) -> bytes:
    if isinstance(leaf, np.ndarray | np.generic):
        return numpy_bytes(leaf)
    torch = sys.modules["torch"]
    flat = leaf.detach().resolve_conj().resolve_neg().contiguous().reshape(-1)
    return bytes(flat.view(torch.uint8).numpy()) if flat.numel() else b""


def _read_leaf(leaf: Leaf, data: bytes) -> Any:
    if leaf.kind == TENSOR:
        torch = importlib.import_module("torch")
        dtype = getattr(torch, leaf.dtype)
        if not data:
            return torch.empty(leaf.shape, dtype=dtype)
        return torch.frombuffer(bytearray(data), dtype=dtype).reshape(leaf.shape)
    return numpy_value(leaf, np.frombuffer(bytearray(data), np.uint8))


def _size_of(leaf: Leaf) -> int:
    if leaf.kind == TENSOR:
        return math.prod(leaf.shape) * int(getattr(importlib.import_module("torch"), leaf.dtype).itemsize)
    return math.prod(leaf.shape) * dtype_of(leaf).itemsize
