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
    DeviceError,
    EngineError,
    ForkedProcessError,
    HorovodInternalError,
    MismatchError,
    PeerLostError,
    RingtuneError,
)
from ringtune.session.basics import (
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    tuning_finished,
)
from ringtune.session.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ringtune.session.submissions import Adasum, Average, Max, Min, Product, ReduceOp, Sum
from ringtune.session.waiting import barrier, join, poll, synchronize
from ringtune.settings.horovod_gaps import gap_error
from ringtune.world.handles import Handle

from . import elastic
from .allgather import allgather, allgather_async, grouped_allgather, grouped_allgather_async
from .allreduce import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from .alltoall import alltoall, alltoall_async
from .broadcast import broadcast, broadcast_, broadcast_async, broadcast_async_
from .compression import Compression, Compressor
from .ddp import DdpState, ddp_hook
from .objects import allgather_object, broadcast_object
from .optimizer import DistributedOptimizer
from .reducescatter import (
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from .sparse import sparse_allreduce_async
from .state import broadcast_optimizer_state, broadcast_parameters
from .step_ends import mark_step
from .sync_batch_norm import SyncBatchNorm

__all__ = [
    "Adasum",
    "Average",
    "CollectiveTimeout",
    "Compression",
    "Compressor",
    "ConfigError",
    "DdpState",
    "DeviceError",
    "DistributedOptimizer",
    "EngineError",
    "ForkedProcessError",
    "Handle",
    "HorovodInternalError",
    "Max",
    "Min",
    "MismatchError",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "RingtuneError",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "ddp_hook",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
    "mark_step",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
    "tuning_finished",
]


def __getattr__(name: str) -> object:
    """Raise for a name that is not here; for one of Horovod's, name its replacement."""
    raise gap_error("torch", name)
