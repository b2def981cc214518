# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training for TensorFlow 2 with Horovod's names and meanings.

```python
import ringtune.tensorflow as hvd

hvd.init()
tape = hvd.DistributedGradientTape(tape)
hvd.broadcast_variables(model.weights, root_rank=0)
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
    mark_step,
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
from ringtune.settings.horovod_gaps import gap_error

from . import elastic
from .compression import Compression, Compressor
from .facts import local_rank_op, local_size_op, process_set_included_op, rank_op, size_op
from .movement import allgather, alltoall, broadcast, grouped_allgather
from .objects import allgather_object, broadcast_object, broadcast_object_fn
from .optimizer import DistributedOptimizer
from .reductions import allreduce, grouped_allreduce, grouped_reducescatter, reducescatter
from .sync_batch_norm import SyncBatchNormalization
from .tape import DistributedGradientTape, PartialDistributedGradientTape
from .variables import broadcast_, broadcast_global_variables, broadcast_variables
from .waiting import barrier, join

__all__ = [
    "Adasum",
    "Average",
    "CollectiveTimeout",
    "Compression",
    "Compressor",
    "ConfigError",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "EngineError",
    "ForkedProcessError",
    "HorovodInternalError",
    "Max",
    "Min",
    "MismatchError",
    "PartialDistributedGradientTape",
    "PeerLostError",
    "ProcessSet",
    "Product",
    "ReduceOp",
    "RingtuneError",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mark_step",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
    "tuning_finished",
]


def __getattr__(name: str) -> object:
    """Raise for a name that is not here; for one of Horovod's, name its replacement."""
    raise gap_error("tensorflow", name)
