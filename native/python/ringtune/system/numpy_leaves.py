# SPDX-License-Identifier: Apache-2.0
"""Arrays and numbers of numpy as leaves of plain data: description, bytes, and back; see `ringtune.system.plain_data`.

A number keeps its type: a `numpy.float64` arrives as a `numpy.float64`.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from ringtune.errors import ConfigError
from ringtune.system.plain_data import Leaf

Array = npt.NDArray[Any]

ARRAY = "array"
SCALAR = "scalar"


def numpy_leaf(value: Any) -> Leaf | None:
    """Return the description of an array or a number of numpy's; None for anything else.

    Raises:
        ConfigError: If its elements are no numbers.
    """
    if not isinstance(value, np.ndarray | np.generic):
        return None
    leaf = Leaf(SCALAR if isinstance(value, np.generic) else ARRAY, value.dtype.name, value.shape)
    if value.dtype.hasobject or value.dtype.names or dtype_of(leaf) != value.dtype.newbyteorder("="):
        raise ConfigError(f"an array of {value.dtype} cannot be sent to other ranks; arrays of numbers can")
    return leaf


def numpy_bytes(value: Any) -> bytes:
    """Return the elements of an array or a number, in their order and in this machine's byte order."""
    native = value if value.dtype.isnative else value.astype(value.dtype.newbyteorder("="))
    elements: bytes = native.tobytes()
    return elements


def dtype_of(leaf: Leaf) -> np.dtype[Any]:
    """Return the dtype of a leaf.

    Raises:
        ConfigError: If this process's numpy does not know it, or its elements are Python objects.
    """
    try:
        dtype = np.dtype(leaf.dtype)
    except TypeError as error:
        raise ConfigError(
            f"this rank's numpy does not know {leaf.dtype}; import what adds it, such as ml_dtypes, on every rank"
        ) from error
    if dtype.hasobject:
        raise ConfigError("an array of Python objects cannot be sent to other ranks; arrays of numbers can")
    return dtype


def numpy_value(leaf: Leaf, memory: Array) -> Any:
    """Return the array or number of a leaf over its bytes, without a copy of an array.

    Args:
        leaf: Result of `numpy_leaf`.
        memory: uint8, shape (bytes,), writable where the array is to be.
    """
    array: Array = memory.view(dtype_of(leaf)).reshape(leaf.shape)
    return array[()] if leaf.kind == SCALAR else array
