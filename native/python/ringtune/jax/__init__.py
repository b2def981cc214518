# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training for JAX: collectives inside and outside of compiled functions, and an Optax wrapper.

```python
import ringtune.jax as hvd

hvd.init()
params = hvd.broadcast_parameters(params, root_rank=0)
optimizer = hvd.distributed(optax.adam(1e-3))
```
"""

from ringtune.errors import (
    CollectiveTimeout,
    ConfigError,
    EngineError,
    ForkedProcessError,
    MismatchError,
    PeerLostError,
    RingtuneError,
)
from ringtune.session.basics import (
    cross_rank,
    cross_size,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mark_step,
    rank,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    tuning_finished,
)
from ringtune.session.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ringtune.session.submissions import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from ringtune.session.waiting import barrier

from .calls import compiled_calls
from .gradients import allreduce_gradients
from .movement import allgather, alltoall, broadcast, grouped_allgather
from .objects import allgather_object, broadcast_object
from .optimizer import distributed
from .parameters import broadcast_parameters
from .reductions import allreduce, grouped_allreduce, grouped_reducescatter, reducescatter

__all__ = [
    "Adasum",
    "Average",
    "CollectiveTimeout",
    "ConfigError",
    "EngineError",
    "ForkedProcessError",
    "Max",
    "Min",
    "MismatchError",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "RingtuneError",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "allreduce_gradients",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_parameters",
    "compiled_calls",
    "cross_rank",
    "cross_size",
    "distributed",
    "global_process_set",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "local_rank",
    "local_size",
    "mark_step",
    "rank",
    "reducescatter",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "tuning_finished",
]
