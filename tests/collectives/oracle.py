# SPDX-License-Identifier: Apache-2.0
"""Expected results of collectives, computed by one process in numpy, for tensors of any front end.

A tensor is an array of float64 or int64 and the name of its dtype, so dtypes that numpy lacks, such as bfloat16, need
no package. Values are small whole numbers: every sum and product is exact in every dtype, and only averages round.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

FLOATS = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}
"""Machine epsilon by name."""
INTEGERS = ("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
REDUCED = (*FLOATS, *INTEGERS, "bool")
OPS: dict[str, Callable[..., Any]] = {
    "Average": np.mean,
    "Sum": np.sum,
    "Min": np.min,
    "Max": np.max,
    "Product": np.prod,
}


def values_of(rank: int, dtype: str, shape: Sequence[int], salt: int = 0) -> Array:
    """Return a rank's values: float64 for floats, int64 for integers and bool."""
    low = 0 if dtype == "bool" or dtype.startswith("u") else -2
    whole = np.random.default_rng(1000 * salt + rank).integers(low, 2 if dtype == "bool" else 3, tuple(shape))
    return whole.astype(np.float64 if dtype in FLOATS else np.int64)


def ops_of(dtype: str) -> list[str]:
    """Return the names of the operations that a dtype takes."""
    return [op for op in OPS if (dtype, op) != ("bool", "Average")]


def reduced(op: str, brought: Sequence[Array], dtype: str) -> Array:
    """Return the reduction of the ranks' values in their dtype: averages of integers are truncated."""
    result: Array = np.asarray(OPS[op](np.stack(brought), axis=0))
    if dtype in FLOATS:
        return result
    whole: Array = result != 0 if dtype == "bool" else np.trunc(result)
    return whole.astype(np.int64)


def parts_of(splits: Sequence[Sequence[int]], brought: Sequence[Array], place: int) -> list[Array]:
    """Return the rows that each rank sends to the one at a place, if rank r sends `splits[r][p]` rows to place p."""
    return [np.split(rows, np.cumsum(to)[:-1])[place] for rows, to in zip(brought, splits, strict=True)]


def assert_equal(expected: Array, dtype: str, got: tuple[str, Array], about: object) -> None:
    """Require equal dtype, shape and values; of floats up to two units of the dtype's rounding."""
    name, values = got
    assert (dtype, expected.shape) == (name, values.shape), (about, expected, got)
    tolerance = 2 * FLOATS.get(dtype, 0.0)
    assert np.allclose(expected, values, tolerance, tolerance), (about, expected, got)
