# SPDX-License-Identifier: Apache-2.0
"""Checks collectives on numpy arrays, dtype by dtype, against what one process computes. Arguments: cases, or all."""

import sys
from functools import partial
from typing import Any

import ml_dtypes
import numpy as np

import ringtune.arrays as hvd
from ringtune.errors import ConfigError, MismatchError
from tests.integration.plain_rank import expect_error, run_cases

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOATS = [np.dtype(np.float16), BFLOAT16, np.dtype(np.float32), np.dtype(np.float64)]
INTEGERS = [np.dtype(name) for name in ("uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64")]
ALL = [*FLOATS, *INTEGERS, np.dtype(np.bool_)]
SHAPES = ((), (0,), (7,), (3, 5), (2, 0, 3), (1031,))
OPS: dict[hvd.ReduceOp, Any] = {
    hvd.Average: np.mean,
    hvd.Sum: np.sum,
    hvd.Min: np.min,
    hvd.Max: np.max,
    hvd.Product: np.prod,
}


def values_of(rank: int, dtype: np.dtype[Any], shape: tuple[int, ...], salt: int = 0) -> hvd.Array:
    """Return a rank's values: small whole numbers, so that every sum and product is exact."""
    low = 0 if dtype.kind in "ub" else -2
    return np.random.default_rng(1000 * salt + rank).integers(low, 3, shape).astype(dtype)


def brought(dtype: np.dtype[Any], shape: tuple[int, ...], salt: int = 0) -> list[hvd.Array]:
    """Return every rank's values."""
    return [values_of(rank, dtype, shape, salt) for rank in range(hvd.size())]


def reduced(op: hvd.ReduceOp, arrays: list[hvd.Array]) -> hvd.Array:
    """Return the reduction of what all ranks bring, in their dtype."""
    dtype = arrays[0].dtype
    stacked = np.stack(arrays).astype(np.float64)
    result = OPS[op](stacked, axis=0)
    if op == hvd.Average and dtype not in FLOATS:
        result = np.trunc(result)
    return np.asarray(result).astype(dtype)


def assert_equal(expected: hvd.Array, got: Any, *about: object) -> None:
    """Require equal dtype, shape and values; averages of floats up to the dtype's rounding."""
    assert expected.dtype == got.dtype, (expected.dtype, got.dtype, *about)
    assert expected.shape == got.shape, (expected.shape, got.shape, *about)
    tolerance = 2 * float(ml_dtypes.finfo(expected.dtype).eps) if expected.dtype in FLOATS else 0.0
    assert np.allclose(expected.astype(float), got.astype(float), tolerance, tolerance), (expected, got, *about)


def case_allreduce() -> None:
    """Every operation, dtype and shape; the input stays as it is."""
    for salt, shape in enumerate(SHAPES):
        for dtype in ALL:
            arrays = brought(dtype, shape, salt)
            own = arrays[hvd.rank()].copy()
            for op in OPS:
                if dtype != np.bool_ or op != hvd.Average:
                    assert_equal(reduced(op, arrays), hvd.allreduce(own, op=op), op, dtype, shape)
            assert np.array_equal(arrays[hvd.rank()], own)
    ones = np.ones(5, np.float32)
    assert_equal(ones * 3, hvd.allreduce(ones, prescale_factor=6.0, postscale_factor=0.5))
    assert_equal(ones, hvd.allreduce(ones, op=hvd.Adasum))


def case_layouts() -> None:
    """Strided, transposed, big-endian arrays and plain numbers are taken as they read."""
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for array in (base[::2, ::-1], base.T, base.astype(">f4")):
        result = hvd.allreduce(array, op=hvd.Sum)
        assert_equal(array.astype(np.float32) * hvd.size(), result)
    assert hvd.size() * 2.5 == hvd.allreduce(2.5, op=hvd.Sum)


def case_groups_and_handles() -> None:
    """Groups of mixed dtypes; operations in flight together, waited for in another order."""
    arrays = [brought(dtype, (n + 2, 3), n) for n, dtype in enumerate(ALL)]
    own = [ranks[hvd.rank()] for ranks in arrays]
    for ranks, got in zip(arrays, hvd.grouped_allreduce(own, op=hvd.Sum), strict=True):
        expected = np.any(ranks, axis=0) if ranks[0].dtype == np.bool_ else reduced(hvd.Sum, ranks)
        assert_equal(expected, got)
    handles = [hvd.allreduce_async(array, op=hvd.Max, name=f"{n}") for n, array in enumerate(own)]
    for ranks, handle in reversed(list(zip(arrays, handles, strict=True))):
        assert_equal(reduced(hvd.Max, ranks), hvd.synchronize(handle))
    expect_error(ConfigError, "handle", lambda: hvd.synchronize(handles[0]))


def case_allgather() -> None:
    """Ragged rows, also of dtypes that the engine only moves."""
    for dtype in (*ALL, np.dtype(np.complex64), np.dtype(ml_dtypes.float8_e5m2), np.dtype("m8[s]")):
        for row in ((), (3,), (2, 0)):
            arrays = [values_of(rank, dtype, ((2 * rank + 1) % 3, *row), 3) for rank in range(hvd.size())]
            own = arrays[hvd.rank()]
            assert np.array_equal(np.concatenate(arrays), hvd.allgather(own)), (dtype, row)
            (joined, rows), _ = hvd.grouped_allgather([own, own[:1]])
            assert np.array_equal(np.concatenate(arrays), joined)
            assert [len(array) for array in arrays] == rows


def case_reducescatter() -> None:
    """Uneven rows, fewer than ranks, alone and in groups."""
    for rows in (0, 1, 7):
        counts = [rows // hvd.size() + (rank < rows % hvd.size()) for rank in range(hvd.size())]
        start = sum(counts[: hvd.rank()])
        for dtype in (*FLOATS, *INTEGERS):
            arrays = brought(dtype, (rows, 3), rows)
            expected = reduced(hvd.Sum, arrays)[start : start + counts[hvd.rank()]]
            assert_equal(expected, hvd.reducescatter(arrays[hvd.rank()], op=hvd.Sum))
            for got in hvd.grouped_reducescatter([arrays[hvd.rank()]] * 2, op=hvd.Sum):
                assert_equal(expected, got)


def case_alltoall() -> None:
    """Equal and uneven splits."""
    size, rank = hvd.size(), hvd.rank()
    for dtype in (BFLOAT16, np.dtype(np.float32), np.dtype(np.uint16)):
        equal = brought(dtype, (2 * size, 3), 5)
        received, rows = hvd.alltoall(equal[rank])
        assert np.array_equal(np.concatenate([array[2 * rank : 2 * rank + 2] for array in equal]), received)
        assert [2] * size == rows
        splits = [[(source + target) % 3 for target in range(size)] for source in range(size)]
        uneven = [values_of(source, dtype, (sum(splits[source]), 2), 6) for source in range(size)]
        parts = [np.split(uneven[source], np.cumsum(splits[source])[:-1])[rank] for source in range(size)]
        received, rows = hvd.alltoall(uneven[rank], splits[rank])
        assert np.array_equal(np.concatenate(parts), received)
        assert [splits[source][rank] for source in range(size)] == rows


def case_broadcast() -> None:
    """Broadcast from every root, with dtypes that the engine knows and others."""
    for dtype in (*ALL, np.dtype(np.uint64), np.dtype("datetime64[s]")):
        for root in range(hvd.size()):
            for shape in ((), (0, 2), (5, 2)):
                own = values_of(hvd.rank(), np.dtype(np.uint8), shape, 7).astype(dtype)
                expected = values_of(root, np.dtype(np.uint8), shape, 7).astype(dtype)
                assert np.array_equal(expected, hvd.broadcast(own, root)), (dtype, root, shape)


def case_objects() -> None:
    """Plain data and arrays of the root, and of every rank; anything else is an error on all."""
    data = {
        "n": hvd.rank(),
        "a": [np.arange(3), (np.ones(2, BFLOAT16), np.float32(0.5))],
        5: None,
        "e": np.empty((0, 2)),
    }
    told = hvd.broadcast_object(data if hvd.rank() == hvd.size() - 1 else None, hvd.size() - 1)
    assert hvd.size() - 1 == told["n"]
    assert_equal(np.ones(2, BFLOAT16), told["a"][1][0])
    assert (np.float32, 0.5) == (type(told["a"][1][1]), told["a"][1][1])
    for rank, other in enumerate(hvd.allgather_object({**data, "n": hvd.rank()})):
        assert rank == other["n"]
        assert_equal(np.arange(3), other["a"][0])
        assert (0, 2) == other["e"].shape
    for bad in (object(), np.array(["text"]), np.array([object()])):
        expect_error(ConfigError, "rank 0", partial(hvd.broadcast_object, bad))
        expect_error(ConfigError, "rank 0", partial(hvd.allgather_object, bad))


def case_refusals() -> None:
    """Refuse bad input before anything is submitted; the engine stays usable."""
    expect_error(TypeError, "complex64", lambda: hvd.allreduce(np.zeros(2, np.complex64)))
    expect_error(ConfigError, "Python objects", lambda: hvd.allgather(np.array([object()])))
    expect_error(ConfigError, "one dimension", lambda: hvd.allgather(np.float32(1)))
    expect_error(ConfigError, "does not support bool", lambda: hvd.allreduce(np.ones(2, bool)))
    expect_error(ConfigError, "splits", lambda: hvd.alltoall(np.zeros(3), [1] * hvd.size() + [9]))
    if hvd.size() > 1:
        expect_error(MismatchError, "odd", lambda: hvd.allreduce(np.zeros(1 + hvd.rank()), name="odd"))
    assert hvd.size() == hvd.allreduce(np.ones(1), op=hvd.Sum).item()


def case_waiting() -> None:
    """A barrier and a join bring all ranks together."""
    hvd.barrier()
    assert hvd.join() in range(hvd.size())


if __name__ == "__main__":
    hvd.init()
    run_cases(globals(), sys.argv[1:])
    assert not {"torch", "tensorflow"} & set(sys.modules)
    hvd.shutdown()
