# SPDX-License-Identifier: Apache-2.0
"""Checks the front end of numpy's arrays: the shared cases, and its own. Arguments: cases, or all."""

import sys
from functools import partial

import ml_dtypes
import numpy as np

import ringtune.arrays as hvd
from ringtune.errors import ConfigError
from tests.collectives.arrays_front_end import ArraysFrontEnd
from tests.collectives.cases import bound
from tests.integration.plain_rank import expect_error, run_cases

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)


def case_layouts() -> None:
    """Strided, transposed, big-endian arrays and plain numbers are taken as they read."""
    base = np.arange(24, dtype=np.float32).reshape(4, 6)
    for array in (base[::2, ::-1], base.T, base.astype(">f4")):
        result = hvd.allreduce(array, op=hvd.Sum)
        assert np.float32 == result.dtype
        assert np.array_equal(array.astype(np.float32) * hvd.size(), result)
    assert hvd.size() * 2.5 == hvd.allreduce(2.5, op=hvd.Sum)


def case_objects() -> None:
    """Plain data and arrays of the root, and of every rank; anything else is an error on all."""
    data = {
        "n": hvd.rank(),
        "a": [np.arange(3), (np.ones(2, BFLOAT16), np.float32(0.5))],
        5: None,
        "e": np.empty((0, 2)),
    }
    received = hvd.broadcast_object(data if hvd.rank() == hvd.size() - 1 else None, hvd.size() - 1)
    assert hvd.size() - 1 == received["n"]
    assert (BFLOAT16, [1.0, 1.0]) == (received["a"][1][0].dtype, received["a"][1][0].astype(float).tolist())
    assert (np.float32, 0.5) == (type(received["a"][1][1]), received["a"][1][1])
    for rank, other in enumerate(hvd.allgather_object({**data, "n": hvd.rank()})):
        assert rank == other["n"]
        assert np.array_equal(np.arange(3), other["a"][0])
        assert (0, 2) == other["e"].shape
    for bad in (object(), np.array(["text"]), np.array([object()])):
        expect_error(ConfigError, "rank 0", partial(hvd.broadcast_object, bad))
        expect_error(ConfigError, "rank 0", partial(hvd.allgather_object, bad))


def case_refusals_of_arrays() -> None:
    """Refuse arrays of objects, and numbers where rows are wanted."""
    expect_error(ConfigError, "Python objects", lambda: hvd.allgather(np.array([object()])))
    expect_error(ConfigError, "one dimension", lambda: hvd.allgather(np.float32(1)))


def case_waiting() -> None:
    """A barrier and a join bring all ranks together."""
    hvd.barrier()
    assert hvd.join() in range(hvd.size())


if __name__ == "__main__":
    hvd.init()
    run_cases({**bound(ArraysFrontEnd()), **globals()}, sys.argv[1:])
    assert not {"torch", "tensorflow"} & set(sys.modules)
    hvd.shutdown()
