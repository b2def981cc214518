# SPDX-License-Identifier: Apache-2.0
"""Collectives on numpy arrays, without any framework; the base of the front ends for TensorFlow and Keras.

```python
import ringtune.arrays as hvd

hvd.init()
total = hvd.allreduce(array, op=hvd.Sum)
```
"""

from ringtune.session.basics import (
    init,
    is_initialized,
    local_rank,
    local_size,
    mark_step,
    rank,
    shutdown,
    size,
    tuning_finished,
)
from ringtune.session.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ringtune.session.submissions import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from ringtune.session.waiting import barrier, join, poll, synchronize
from ringtune.world.handles import Handle

from .buffers import Array
from .movement import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    broadcast,
    broadcast_async,
    grouped_allgather,
)
from .objects import LeafTypes, allgather_object, broadcast_object
from .reductions import (
    allreduce,
    allreduce_async,
    grouped_allreduce,
    grouped_reducescatter,
    reducescatter,
    reducescatter_async,
)

__all__ = [
    "Adasum",
    "Array",
    "Average",
    "Handle",
    "LeafTypes",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_async",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_async",
    "broadcast_object",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mark_step",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "shutdown",
    "size",
    "synchronize",
    "tuning_finished",
]
