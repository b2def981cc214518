# SPDX-License-Identifier: Apache-2.0
"""Public names of Horovod 0.28 that the front ends lack, and their replacements.

`docs/reference/horovod_names.md` shows these tables; a use of one of the names, or an import of one of the modules,
raises an error with the same text.
"""

from collections.abc import Mapping

_SUBMODULE = "its functions are names of the package itself"
_BUILD_CHECK = "a check of Horovod's own build; `ringtune doctor` tells what this installation has"
_INTERNAL = "an inner part of Horovod, which its programs do not call"

GAPS: Mapping[str, Mapping[str, str]] = {
    "torch": {
        "check_extension": _BUILD_CHECK,
        "check_installed_version": _BUILD_CHECK,
        "functions": _SUBMODULE,
        "mpi_ops": _SUBMODULE,
    },
    "tensorflow": {
        "BroadcastGlobalVariablesHook": "a hook of TensorFlow 1's sessions; call `broadcast_variables`, or give "
        "`fit()` the `BroadcastGlobalVariablesCallback`",
        "LocalGradientAggregationHelper": "give `DistributedOptimizer` the argument `backward_passes_per_step`",
        "check_extension": _BUILD_CHECK,
        "data": "tf.data's own service does the same: start `tf.data.experimental.service.DispatchServer` and "
        "`WorkerServer`, send the dispatcher's address by `broadcast_object`, and read by "
        "`dataset.apply(tf.data.experimental.service.distribute(...))`",
        "check_num_rank_power_of_2": "not needed: Adasum takes any number of ranks",
        "functions": _SUBMODULE,
        "gpu_available": "tensors are in CPU memory; `tf.config.list_physical_devices('GPU')` tells of GPUs",
        "gradient_aggregation": "give `DistributedOptimizer` the argument `backward_passes_per_step`",
        "handle_average_backwards_compatibility": _INTERNAL,
        "mpi_ops": _SUBMODULE,
        "refs_to_vars": _INTERNAL,
        "split_list": _INTERNAL,
        "support_non_legacy_keras_optimizers": "not needed: every optimizer of Keras 3 is taken, and no other",
        "util": _INTERNAL,
        "vars_to_refs": _INTERNAL,
    },
    "keras": {},
}


MEMBER_GAPS: Mapping[str, str] = {
    "keras.DistributedOptimizer(…)": "name the arguments behind `name`: the order is that of "
    "`horovod.tensorflow.keras`",
    "keras.PartialDistributedOptimizer(…)": "name the arguments behind `name`: the order is that of "
    "`horovod.tensorflow.keras`",
    "keras.load_model(legacy_opts)": "not needed: Keras 3 has no legacy optimizers",
    "torch.ProcessSet(ranks_or_comm)": "the argument is `ranks`, and takes no communicator of MPI",
    "torch.ProcessSet.mpi_comm": "not there: a set has no communicator of MPI",
    "torch.elastic.State.on_hosts_updated": "not needed: `commit` and `check_host_updates` ask the launcher themselves",
}
"""Arguments that have another place, and members of objects that are missing."""


def import_gap_error(front_end: str, name: str) -> ImportError:
    """Return the error for a module of Horovod's that a front end does not have; see `gap_error`."""
    text = f"ringtune.{front_end} has no module {name!r}, which Horovod has; in its place: {GAPS[front_end][name]}"
    return ImportError(text, name=f"ringtune.{front_end}.{name}")


def gap_error(front_end: str, name: str) -> AttributeError:
    """Return the error for a name that a front end does not have.

    Args:
        front_end: `torch`, `tensorflow` or `keras`.
        name: Name that was asked for.
    """
    text = f"module 'ringtune.{front_end}' has no attribute {name!r}"
    if name in GAPS[front_end]:
        text += f", which Horovod has: {GAPS[front_end][name]}"
    return AttributeError(text)
