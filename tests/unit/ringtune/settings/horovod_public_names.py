# SPDX-License-Identifier: Apache-2.0
"""The public names of Horovod 0.28's front ends, submodules that its programs import from included."""

_PLACE = (
    *("init", "shutdown", "is_initialized", "start_timeline", "stop_timeline"),
    *("size", "local_size", "cross_size", "rank", "local_rank", "cross_rank"),
    *("mpi_threads_supported", "mpi_enabled", "mpi_built", "gloo_enabled", "gloo_built"),
    *("nccl_built", "ddl_built", "ccl_built", "cuda_built", "rocm_built"),
    *("ProcessSet", "global_process_set", "add_process_set", "remove_process_set"),
    *("Average", "Sum", "Compression"),
)

NAMES = {
    "torch": (
        *_PLACE,
        *("Adasum", "Min", "Max", "Product", "HorovodInternalError", "is_homogeneous"),
        *("allreduce", "allreduce_", "allreduce_async", "allreduce_async_", "sparse_allreduce_async"),
        *("grouped_allreduce", "grouped_allreduce_", "grouped_allreduce_async", "grouped_allreduce_async_"),
        *("allgather", "allgather_async", "grouped_allgather", "grouped_allgather_async"),
        *("broadcast", "broadcast_", "broadcast_async", "broadcast_async_"),
        *("alltoall", "alltoall_async", "reducescatter", "reducescatter_async"),
        *("grouped_reducescatter", "grouped_reducescatter_async"),
        *("barrier", "join", "poll", "synchronize"),
        *("allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"),
        *("DistributedOptimizer", "SyncBatchNorm"),
        *("check_extension", "check_installed_version"),
        *("compression", "elastic", "functions", "mpi_ops", "optimizer", "sync_batch_norm"),
    ),
    "tensorflow": (
        *_PLACE,
        *("Adasum", "Min", "Max", "Product", "is_homogeneous"),
        *("rank_op", "local_rank_op", "size_op", "local_size_op", "process_set_included_op"),
        *("allreduce", "grouped_allreduce", "allgather", "grouped_allgather", "broadcast", "broadcast_", "alltoall"),
        *("reducescatter", "grouped_reducescatter", "join"),
        *("allgather_object", "broadcast_object", "broadcast_object_fn", "broadcast_variables"),
        *("broadcast_global_variables", "BroadcastGlobalVariablesHook"),
        *("DistributedOptimizer", "DistributedGradientTape", "PartialDistributedGradientTape"),
        *("SyncBatchNormalization", "LocalGradientAggregationHelper"),
        *("check_extension", "gpu_available", "split_list", "support_non_legacy_keras_optimizers"),
        *("handle_average_backwards_compatibility", "check_num_rank_power_of_2", "vars_to_refs", "refs_to_vars"),
        *("compression", "data", "elastic", "functions", "gradient_aggregation", "keras", "mpi_ops"),
        *("sync_batch_norm", "util"),
    ),
    "keras": (
        *_PLACE,
        *("allreduce", "allgather", "broadcast", "reducescatter", "broadcast_global_variables"),
        *("DistributedOptimizer", "PartialDistributedOptimizer", "load_model"),
        *("callbacks", "elastic"),
    ),
}

CALLBACKS = (
    *("BestModelCheckpoint", "BroadcastGlobalVariablesCallback", "LearningRateScheduleCallback"),
    *("LearningRateWarmupCallback", "MetricAverageCallback"),
)
