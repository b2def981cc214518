# SPDX-License-Identifier: Apache-2.0
"""`DistributedGradientTape`: a gradient tape whose gradients are combined over the ranks."""

from typing import Any

import tensorflow as tf

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Adasum, Average, ReduceOp, Sum

from .compression import Compression, CompressorClass
from .gradients import GradientPlan, GradientReducer, gradient_reduction
from .groups import Groups, checked_groups
from .local_layers import variables_of


def DistributedGradientTape(  # noqa: N802, PLR0917  (Horovod's name and signature)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: CompressorClass = Compression.none,
    sparse_as_dense: bool = False,  # noqa: FBT002  (Horovod's signature)
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,  # noqa: FBT002  (Horovod's signature)
) -> tf.GradientTape:
    """Return a tape that shares the records of `gradtape`, and whose `gradient()` combines over the ranks.

    The end of each `gradient()` is the end of a step to the tuner.

    Args:
        gradtape: Before, in or after its context.
        device_dense: Horovod's; without effect.
        device_sparse: Horovod's; without effect.
        compression: Encoding of gradients on the way, such as `Compression.fp16`.
        sparse_as_dense: Whether `tf.IndexedSlices` travel as dense tensors.
        op: `Average`, `Sum` or `Adasum`.
        gradient_predivide_factor: For Average: gradients are divided by it before the sum and multiplied after, so
            that sums stay in the range of 16-bit floats.
        num_groups: Horovod's older spelling of a number as `groups`.
        groups: Gradients that are reduced together, fused, all or none: a number of groups of consecutive sources, or
            lists of variables.
        process_set: Ranks that take part; on others the tape's own gradients come back.
        scale_local_gradients: Whether gradients of variables that were given to `register_local_source()` of the
            result, which are not combined, are divided by the number of ranks.

    Raises:
        ConfigError: If an argument is not possible.
    """
    del device_dense, device_sparse
    if isinstance(gradtape, _DistributedTape):
        raise ConfigError("this tape is distributed already; wrap it once")
    plan = GradientPlan(
        reduction=gradient_reduction(op, gradient_predivide_factor, (Average, Sum, Adasum)),
        compression=compression,
        is_sparse_as_dense=sparse_as_dense,
        groups=checked_groups(num_groups, groups),
        process_set=process_set,
        is_scaling_local=scale_local_gradients,
    )
    tape = _DistributedTape.__new__(_DistributedTape)
    tape.__dict__ |= vars(gradtape)
    tape.reducer = GradientReducer(plan)
    return tape


def PartialDistributedGradientTape(  # noqa: N802, PLR0917  (Horovod's name and signature)
    gradtape: tf.GradientTape,
    device_dense: str = "",
    device_sparse: str = "",
    compression: CompressorClass = Compression.none,
    sparse_as_dense: bool = False,  # noqa: FBT002  (Horovod's signature)
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,  # noqa: FBT002  (Horovod's signature)
) -> tf.GradientTape:
    """Return a `DistributedGradientTape` that leaves the gradients of some layers on their rank.

    Args:
        gradtape: See `DistributedGradientTape`, and so for parameters not listed here.
        device_dense: Horovod's; without effect.
        device_sparse: Horovod's; without effect.
        compression: Encoding of gradients on the way.
        sparse_as_dense: Whether `tf.IndexedSlices` travel as dense tensors.
        op: `Average`, `Sum` or `Adasum`.
        gradient_predivide_factor: Divides before the sum and multiplies after it.
        num_groups: Horovod's older spelling of a number as `groups`.
        groups: Gradients that are reduced together.
        process_set: Ranks that take part.
        local_layers: One layer of Keras or several, whose trainable weights each rank has for itself.
        scale_local_gradients: Whether their gradients are divided by the number of ranks.

    Raises:
        ConfigError: If an argument is not possible.
    """
    tape = DistributedGradientTape(
        gradtape,
        device_dense,
        device_sparse,
        compression,
        sparse_as_dense,
        op,
        gradient_predivide_factor,
        num_groups,
        groups,
        process_set,
        scale_local_gradients,
    )
    for variable in variables_of(local_layers):
        tape.register_local_source(variable)
    return tape


class _DistributedTape(tf.GradientTape):  # type: ignore[misc]  # TensorFlow has no types
    """A tape with a reducer."""

    reducer: GradientReducer

    def register_local_source(self, source: Any) -> None:
        """Leave the gradient of a variable that this rank has for itself out of the reductions."""
        self.reducer.keep_local(source)

    def gradient(self, target: Any, sources: Any, *arguments: Any, **options: Any) -> Any:
        """Return the gradients of `target` combined over the ranks; arguments are those of `tf.GradientTape`."""
        gradients = super().gradient(target, sources, *arguments, **options)
        combined = self.reducer.reduce(tf.nest.flatten(gradients), tf.nest.flatten(sources))
        return tf.nest.pack_sequence_as(gradients, combined)
