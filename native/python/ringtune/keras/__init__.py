# SPDX-License-Identifier: Apache-2.0
"""Data-parallel training for Keras 3 on TensorFlow with Horovod's names and meanings.

```python
import ringtune.keras as hvd

hvd.init()
model.compile(optimizer=hvd.DistributedOptimizer(optimizer), loss=loss)
model.fit(data, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
```
"""

from ringtune.graph_operations.keras_backend import check_keras_backend
from ringtune.settings.horovod_gaps import gap_error

check_keras_backend()  # first: on another backend there may be no TensorFlow to import

from ringtune.tensorflow import (  # noqa: E402  (see above)
    Adasum,
    Average,
    Compression,
    Compressor,
    ConfigError,
    DistributedGradientTape,
    EngineError,
    HorovodInternalError,
    Max,
    Min,
    MismatchError,
    PeerLostError,
    ProcessSet,
    Product,
    ReduceOp,
    RingtuneError,
    Sum,
    add_process_set,
    allgather_object,
    barrier,
    broadcast_global_variables,
    broadcast_object,
    broadcast_variables,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_homogeneous,
    is_initialized,
    join,
    local_rank,
    local_size,
    mark_step,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
    tuning_finished,
)

from . import callbacks, elastic  # noqa: E402  (see above)
from .models import DistributedOptimizer, PartialDistributedOptimizer, load_model  # noqa: E402  (see above)
from .values import allgather, allreduce, broadcast, reducescatter  # noqa: E402  (see above)

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "ConfigError",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "EngineError",
    "HorovodInternalError",
    "Max",
    "Min",
    "MismatchError",
    "PartialDistributedOptimizer",
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
    "barrier",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "load_model",
    "local_rank",
    "local_size",
    "mark_step",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
    "tuning_finished",
]


def __getattr__(name: str) -> object:
    """Raise for a name that is not here; for one of Horovod's, name its replacement."""
    raise gap_error("keras", name)
