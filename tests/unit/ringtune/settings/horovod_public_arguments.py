# SPDX-License-Identifier: Apache-2.0
"""The arguments of Horovod 0.28's functions by position, and the public members of its objects."""

ARGUMENTS = {
    "torch": {
        "DistributedOptimizer": (
            "optimizer named_parameters compression backward_passes_per_step op gradient_predivide_factor "
            "num_groups groups sparse_as_dense process_set"
        ),
        "add_process_set": "process_set",
        "allgather": "tensor name process_set",
        "allgather_async": "tensor name process_set",
        "allgather_object": "obj name",
        "allreduce": "tensor average name compression op prescale_factor postscale_factor process_set",
        "allreduce_": "tensor average name op prescale_factor postscale_factor process_set",
        "allreduce_async": "tensor average name op prescale_factor postscale_factor process_set",
        "allreduce_async_": "tensor average name op prescale_factor postscale_factor process_set",
        "alltoall": "tensor splits name process_set",
        "alltoall_async": "tensor splits name process_set",
        "barrier": "process_set",
        "broadcast": "tensor root_rank name process_set",
        "broadcast_": "tensor root_rank name process_set",
        "broadcast_async": "tensor root_rank name process_set",
        "broadcast_async_": "tensor root_rank name process_set",
        "broadcast_object": "obj root_rank name process_set",
        "broadcast_optimizer_state": "optimizer root_rank model",
        "broadcast_parameters": "params root_rank",
        "grouped_allgather": "tensors name process_set",
        "grouped_allgather_async": "tensors name process_set",
        "grouped_allreduce": ("tensors average name compression op prescale_factor postscale_factor process_set"),
        "grouped_allreduce_": "tensors average name op prescale_factor postscale_factor process_set",
        "grouped_allreduce_async": "tensors average name op prescale_factor postscale_factor process_set",
        "grouped_allreduce_async_": "tensors average name op prescale_factor postscale_factor process_set",
        "grouped_reducescatter": "tensors name compression op process_set prescale_factor postscale_factor",
        "grouped_reducescatter_async": "tensors name op process_set prescale_factor postscale_factor",
        "join": "device",
        "poll": "handle",
        "reducescatter": "tensor name compression op process_set prescale_factor postscale_factor",
        "reducescatter_async": "tensor name op process_set prescale_factor postscale_factor",
        "remove_process_set": "process_set",
        "sparse_allreduce_async": "tensor name op process_set",
        "synchronize": "handle",
    },
    "tensorflow": {
        "DistributedGradientTape": (
            "gradtape device_dense device_sparse compression sparse_as_dense op gradient_predivide_factor "
            "num_groups groups process_set scale_local_gradients"
        ),
        "DistributedOptimizer": (
            "optimizer name use_locking device_dense device_sparse compression sparse_as_dense "
            "backward_passes_per_step op gradient_predivide_factor average_aggregated_gradients num_groups "
            "groups process_set scale_local_gradients"
        ),
        "PartialDistributedGradientTape": (
            "gradtape device_dense device_sparse compression sparse_as_dense op gradient_predivide_factor "
            "num_groups groups process_set local_layers scale_local_gradients"
        ),
        "allgather": "tensor name ignore_name_scope process_set",
        "allgather_object": "obj session name process_set",
        "allreduce": (
            "tensor average device_dense device_sparse compression op prescale_factor postscale_factor name "
            "process_set ignore_name_scope"
        ),
        "alltoall": "tensor splits name ignore_name_scope process_set",
        "broadcast": "tensor root_rank name ignore_name_scope process_set",
        "broadcast_": "variables root_rank name process_set",
        "broadcast_global_variables": "root_rank",
        "broadcast_object": "obj root_rank session name process_set",
        "broadcast_object_fn": "root_rank session name process_set",
        "broadcast_variables": "variables root_rank process_set inplace",
        "grouped_allgather": "tensors name ignore_name_scope process_set",
        "grouped_allreduce": (
            "tensors average device_dense device_sparse compression op prescale_factor postscale_factor "
            "process_set ignore_name_scope name"
        ),
        "grouped_reducescatter": ("tensors device_dense compression op process_set prescale_factor postscale_factor"),
        "join": "",
        "local_rank_op": "name",
        "local_size_op": "name",
        "process_set_included_op": "process_set_id name",
        "rank_op": "name",
        "reducescatter": (
            "tensor device_dense compression op name process_set ignore_name_scope prescale_factor postscale_factor"
        ),
        "size_op": "process_set_id name",
    },
    "keras": {
        "DistributedOptimizer": (
            "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor "
            "op num_groups groups"
        ),
        "PartialDistributedOptimizer": (
            "optimizer name device_dense device_sparse compression sparse_as_dense gradient_predivide_factor "
            "op backward_passes_per_step average_aggregated_gradients groups process_set local_layers "
            "scale_local_gradients"
        ),
        "allgather": "value name",
        "allreduce": "value name average prescale_factor postscale_factor op compression",
        "broadcast": "value root_rank name",
        "broadcast_global_variables": "root_rank",
        "load_model": "filepath custom_optimizers custom_objects compression legacy_opts",
        "reducescatter": "value name op",
    },
    "spark": {
        "run": (
            "fn args kwargs num_proc start_timeout use_mpi use_gloo extra_mpi_args env stdout stderr verbose "
            "nics prefix_output_with_timestamp executable"
        ),
        "run_elastic": (
            "fn args kwargs num_proc min_num_proc max_num_proc start_timeout elastic_timeout reset_limit env "
            "stdout stderr verbose nics prefix_output_with_timestamp min_np max_np"
        ),
    },
}

MEMBERS = {
    "elastic.ElasticSampler": (
        *("set_epoch", "record_batch", "load_state_dict", "state_dict", "reset", "dataset", "epoch", "indices"),
        *("num_replicas", "num_samples", "processed_indices", "processed_num", "rank", "remaining_indices", "seed"),
        *("shuffle", "total_size"),
    ),
    "elastic.State": (
        *("register_reset_callbacks", "on_reset", "on_hosts_updated", "commit", "check_host_updates", "save"),
        *("restore", "sync", "reset"),
    ),
    "ProcessSet": ("size", "rank", "included", "mpi_comm", "process_set_id", "ranks"),
    "DistributedOptimizer": ("synchronize", "skip_synchronize", "set_backward_passes_per_step", "zero_grad", "step"),
}
