# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training for PyTorch with Horovod's names and meanings.

```python
import ringtune.torch as hvd

hvd.init()
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
```
"""

from ringtune.errors import (
    CollectiveTimeout,
    ConfigError,
    EngineError,
    ForkedProcessError,
    HorovodInternalError,
    MismatchError,
    PeerLostError,
    RingtuneError,
)

from .basics import (
    cross_rank,
    cross_size,
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
from .operations import (
    Average,
    ReduceOp,
    Sum,
    allgather,
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    poll,
    synchronize,
)
from .optimizer import DistributedOptimizer
from .state import broadcast_object, broadcast_optimizer_state, broadcast_parameters

__all__ = [
    "Average",
    "CollectiveTimeout",
    "ConfigError",
    "DistributedOptimizer",
    "EngineError",
    "ForkedProcessError",
    "HorovodInternalError",
    "MismatchError",
    "PeerLostError",
    "ReduceOp",
    "RingtuneError",
    "Sum",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "cross_rank",
    "cross_size",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "mark_step",
    "poll",
    "rank",
    "shutdown",
    "size",
    "synchronize",
    "tuning_finished",
]
