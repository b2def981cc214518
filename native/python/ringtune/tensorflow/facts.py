# SPDX-License-Identifier: Apache-2.0
"""A rank's place in the world as tensors: read when a graph runs, not when it is made. Horovod's names."""

from collections.abc import Callable

import numpy as np
import tensorflow as tf

from ringtune.errors import ConfigError
from ringtune.session import basics
from ringtune.session.process_sets import ProcessSet, process_set_of

from .host import call_host


def rank_op(name: str | None = None) -> tf.Tensor:
    """Return this process's rank as an int32 tensor; `name` is Horovod's, without effect."""
    del name
    return _fact(basics.rank)


def local_rank_op(name: str | None = None) -> tf.Tensor:
    """Return this process's number among the ranks of its host as an int32 tensor; see `rank_op`."""
    del name
    return _fact(basics.local_rank)


def size_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Return the number of ranks of a process set as an int32 tensor; 0 is the set of all ranks; see `rank_op`."""
    del name
    return _fact(lambda: len(_set_of(process_set_id).ranks or ()))


def local_size_op(name: str | None = None) -> tf.Tensor:
    """Return the number of ranks on this host as an int32 tensor; see `rank_op`."""
    del name
    return _fact(basics.local_size)


def process_set_included_op(process_set_id: int = 0, name: str | None = None) -> tf.Tensor:
    """Return 1 where this rank is in a process set, else 0, as an int32 tensor; see `size_op`."""
    del name
    return _fact(lambda: int(_set_of(process_set_id).included() is True))


def _set_of(process_set_id: int) -> ProcessSet:
    found = process_set_of(process_set_id)
    if found is None:
        raise ConfigError(f"there is no process set {process_set_id} in the running job; see ProcessSet.process_set_id")
    return found


def _fact(ask: Callable[[], int]) -> tf.Tensor:
    (fact,) = call_host(lambda _: [np.array(ask(), np.int32)], [], [tf.TensorSpec([], tf.int32)])
    return fact
