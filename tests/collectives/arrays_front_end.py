# SPDX-License-Identifier: Apache-2.0
"""The front end of numpy's arrays."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

import ringtune.arrays
from tests.collectives.front_end import FrontEnd
from tests.collectives.oracle import FLOATS, REDUCED, Array

HAS_ML_DTYPES = find_spec("ml_dtypes") is not None


class ArraysFrontEnd(FrontEnd):
    """Arrays of numpy, and of `ml_dtypes` where that is installed; see `FrontEnd`."""

    hvd: Any = ringtune.arrays
    reduced = tuple(dtype for dtype in REDUCED if HAS_ML_DTYPES or dtype != "bfloat16")
    moved = ("complex64", "datetime64[s]", "timedelta64[s]", *(("float8_e5m2",) if HAS_ML_DTYPES else ()))
    has_rows = False
    left_out = frozenset({"gradients_of_sums", "gradients_of_moves"})

    def tensor(self, values: Array, dtype: str) -> Any:
        """Return an array of a dtype with these values."""
        if dtype in {"bfloat16", "float8_e5m2"}:
            import ml_dtypes  # environments of MPIs have none

            return values.astype(getattr(ml_dtypes, dtype))
        return values.astype(dtype)

    def read(self, tensor: Any) -> tuple[str, Array]:
        """Return the name of an array's dtype, and its values as float64 or int64."""
        values = tensor.real if tensor.dtype.kind == "c" else tensor
        is_float = tensor.dtype.kind in "cf" or tensor.dtype.name in FLOATS or tensor.dtype.name == "float8_e5m2"
        return tensor.dtype.name, np.asarray(values.astype(np.float64 if is_float else np.int64))

    def call(self, function: str, *arguments: Any, **options: Any) -> Any:
        """Call a function of the front end; of the rows of groups, without the numbers from each rank."""
        result = super().call(function, *arguments, **options)
        return [rows for rows, _ in result] if function == "grouped_allgather" else result

    def alltoall(self, tensor: Any, splits: Sequence[int] | None = None) -> tuple[Any, list[int] | None]:
        """Return the received rows, and how many came from each rank."""
        rows, counts = self.call("alltoall", tensor, splits)
        return rows, counts

    def wait(self, handle: Any) -> Any:
        """Return the array that an asynchronous call gives; of gathered rows, without the numbers from each rank."""
        result = super().wait(handle)
        return result[0] if isinstance(result, tuple) else result
