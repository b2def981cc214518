# SPDX-License-Identifier: Apache-2.0
"""Collectives on values, in the order of arguments that `horovod.keras` has."""

from typing import Any

from ringtune import tensorflow
from ringtune.tensorflow import Average, Compression, ReduceOp
from ringtune.tensorflow.compression import CompressorClass


def allreduce(  # noqa: PLR0917  (Horovod's signature)
    value: Any,
    name: str | None = None,
    average: bool | None = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: ReduceOp | None = None,
    compression: CompressorClass = Compression.none,
) -> Any:
    """Combine a value over all ranks; see `ringtune.tensorflow.allreduce`."""
    return tensorflow.allreduce(
        value,
        average,
        compression=compression,
        op=op,
        prescale_factor=prescale_factor,
        postscale_factor=postscale_factor,
        name=name,
    )


def allgather(value: Any, name: str | None = None) -> Any:
    """Return every rank's rows in rank order; see `ringtune.tensorflow.allgather`."""
    return tensorflow.allgather(value, name)


def broadcast(value: Any, root_rank: int, name: str | None = None) -> Any:
    """Return the root's value on every rank; see `ringtune.tensorflow.broadcast`."""
    return tensorflow.broadcast(value, root_rank, name)


def reducescatter(value: Any, name: str | None = None, op: ReduceOp = Average) -> Any:
    """Combine a value and return this rank's rows; see `ringtune.tensorflow.reducescatter`."""
    return tensorflow.reducescatter(value, op=op, name=name)
