# SPDX-License-Identifier: Apache-2.0
"""View of a numpy array for the engine: a pointer, a shape and a dtype; and the check of arrays that it can take.

bfloat16 is the ml_dtypes package's, which frameworks bring along; it is known by its name and never imported.
"""

import functools
import math
from typing import Any

import numpy as np
import numpy.typing as npt

from ringtune import _engine
from ringtune.errors import ConfigError, WrongTypeError
from ringtune.session.submissions import DTYPES, REDUCIBLE, Operand, reducible_number

Array = npt.NDArray[Any]

ALIGNMENT = 64
"""Bytes; a cache line, and the alignment at which TensorFlow takes memory over without a copy."""

_NUMBERS = {name: number for number, name in enumerate(DTYPES)}
_BYTES = _NUMBERS["uint8"]


def checked_array(operation: str, value: Any) -> Array:
    """Return a value as an array whose memory is dense and in this machine's byte order.

    Args:
        operation: Name of the operation, for the message.
        value: An array, or a value that numpy makes one of.

    Raises:
        ConfigError: If its elements are Python objects.
    """
    array = np.asarray(value, order="C")
    if array.dtype.hasobject:
        raise WrongTypeError(f"{operation} needs an array of numbers, not of Python objects ({type(value).__name__})")
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def number_operand(operation: str, array: Array) -> Operand:
    """Return an array's memory for operations that compute with it.

    Args:
        operation: Name of the operation, for the message.
        array: Result of `checked_array`.

    Raises:
        ConfigError: If the engine does not compute with the dtype.
    """
    number = _number_of(array.dtype)
    if number is None or number >= len(REDUCIBLE):
        number = reducible_number(operation, array.dtype.name)
    return Operand(array.ctypes.data, array.shape, number, array)


def any_operand(array: Array) -> Operand:
    """Return an array's memory for operations that move it; dtypes that the engine has no name for go as bytes."""
    number = _number_of(array.dtype)
    if number is not None:
        return Operand(array.ctypes.data, array.shape, number, array)
    return Operand(array.ctypes.data, (*array.shape, array.dtype.itemsize), _BYTES, array)


@functools.cache
def _number_of(dtype: np.dtype[Any]) -> int | None:
    """Return the engine's number; remembered, because numpy makes up a dtype's name anew each time, in microseconds."""
    return _NUMBERS.get(dtype.name)


def result_operand(source: Operand) -> Operand:
    """Return new memory for a result of the shape and dtype of an array."""
    array = empty_array(source.shape, source.owner.dtype)
    return source._replace(pointer=array.ctypes.data, owner=array)


def checked_rows(operation: str, value: Any) -> Array:
    """Return a value as an array of rows; see `checked_array`.

    Raises:
        ConfigError: If it has no dimension, or its elements are Python objects.
    """
    array = checked_array(operation, value)
    if array.ndim == 0:
        raise ConfigError(f"{operation} works on rows and needs an array of one dimension at least; call reshape(1)")
    return array


def empty_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return new memory for a result, aligned to `ALIGNMENT`."""
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, dtype=np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array: Array = memory[start : start + size].view(dtype).reshape(shape)
    return array


def rows_of(result: _engine.Result | None, source: Array) -> Array:
    """Return the rows that an operation brought, without a copy.

    Args:
        result: The engine's.
        source: This rank's array, for the dtype and the shape of a row.
    """
    if result is None:
        raise AssertionError("an operation whose output the engine owns has a result")
    _, *row = source.shape
    array: Array = result.memory.view(source.dtype).reshape(sum(result.rows), *row)
    return array
