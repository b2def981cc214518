# SPDX-License-Identifier: Apache-2.0
"""Distributed optimizers, and saved models that get one, in the order of arguments that `horovod.keras` has."""

from collections.abc import Mapping, Sequence
from typing import Any

import keras

from ringtune import tensorflow
from ringtune.tensorflow import Average, Compression, ProcessSet, ReduceOp, global_process_set
from ringtune.tensorflow.compression import CompressorClass
from ringtune.tensorflow.groups import Groups
from ringtune.tensorflow.local_layers import variables_of


def DistributedOptimizer(  # noqa: N802, PLR0917  (Horovod's name and signature)
    optimizer: Any,
    name: str | None = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: CompressorClass = Compression.none,
    sparse_as_dense: bool = False,  # noqa: FBT002  (Horovod's signature)
    gradient_predivide_factor: float = 1.0,
    op: ReduceOp = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,  # noqa: FBT002  (Horovod's signature)
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,  # noqa: FBT002  (Horovod's signature)
) -> Any:
    """Return an optimizer that combines gradients over the ranks; see `ringtune.tensorflow.DistributedOptimizer`."""
    return tensorflow.DistributedOptimizer(
        optimizer,
        name,
        device_dense=device_dense,
        device_sparse=device_sparse,
        compression=compression,
        sparse_as_dense=sparse_as_dense,
        backward_passes_per_step=backward_passes_per_step,
        op=op,
        gradient_predivide_factor=gradient_predivide_factor,
        average_aggregated_gradients=average_aggregated_gradients,
        num_groups=num_groups,
        groups=groups,
        process_set=process_set,
        scale_local_gradients=scale_local_gradients,
    )


def PartialDistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: Any, *arguments: Any, local_layers: Any = None, **options: Any
) -> Any:
    """Return a `DistributedOptimizer` that leaves the gradients of some layers on their rank.

    Args:
        optimizer: Any optimizer of Keras 3.
        arguments: Those of `DistributedOptimizer`.
        local_layers: One layer of Keras or several, built, whose trainable weights each rank has for itself. Their
            gradients are divided by the number of ranks unless `scale_local_gradients=False`.
        options: Those of `DistributedOptimizer`.

    Raises:
        ConfigError: If an argument is not possible.
    """
    distributed = DistributedOptimizer(optimizer, *arguments, **options)
    for variable in variables_of(local_layers):
        distributed.register_local_var(variable)
    return distributed


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: CompressorClass = Compression.none,
) -> Any:
    """Load a saved Keras model and make its optimizer, state included, a distributed one.

    Args:
        filepath: File of a model saved by Keras, with or without ringtune.
        custom_optimizers: Classes of optimizers that Keras does not know.
        custom_objects: Other objects that Keras does not know, by name.
        compression: Encoding of gradients on the way.

    Returns:
        The model; one that was saved without an optimizer has none.
    """
    known = {cls.__name__: cls for cls in custom_optimizers or ()}
    model = keras.models.load_model(filepath, custom_objects={**known, **(custom_objects or {})})
    if model.optimizer is not None:
        model.optimizer = DistributedOptimizer(model.optimizer, compression=compression)
    return model
