# SPDX-License-Identifier: Apache-2.0
"""Waiting for every rank, also from inside a graph, with Horovod's names and meanings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ringtune.arrays import Array
from ringtune.session import waiting
from ringtune.session.process_sets import ProcessSet, global_process_set

from .host import call_host


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return when every rank of the set has called it; in a graph, go on then."""

    def run(_: list[Array]) -> Sequence[Array]:
        waiting.barrier(process_set)
        return []

    call_host(run, [], [])


def join() -> Any:
    """Announce that this rank has no more data, and wait until every rank has; see `ringtune.session.waiting.join`.

    Returns:
        The rank that joined last, the same on all ranks, as a tensor.
    """
    (last,) = call_host(lambda _: [np.array(waiting.join(), np.int32)], [], [tf.TensorSpec([], tf.int32)])
    return last
