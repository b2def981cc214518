# SPDX-License-Identifier: Apache-2.0
"""`DistributedOptimizer`: any Keras optimizer, with its gradients combined over the ranks before each step."""

from collections.abc import Sequence
from typing import Any

import keras

from ringtune.errors import ConfigError, WrongTypeError
from ringtune.graph_operations.keras_backend import check_keras_backend
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Average, ReduceOp, Sum

from .accumulation import GradientAccumulator
from .compression import Compression, CompressorClass
from .gradients import GradientPlan, GradientReducer, gradient_reduction
from .groups import Groups, checked_groups


def DistributedOptimizer(  # noqa: N802, PLR0917  (Horovod's name and signature)
    optimizer: Any,
    name: str | None = None,
    use_locking: bool = False,  # noqa: FBT002  (Horovod's signature)
    device_dense: str = "",
    device_sparse: str = "",
    compression: CompressorClass = Compression.none,
    sparse_as_dense: bool = False,  # noqa: FBT002  (Horovod's signature)
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,  # noqa: FBT002  (Horovod's signature)
    num_groups: int = 0,
    groups: Groups = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,  # noqa: FBT002  (Horovod's signature)
) -> Any:
    """Return an optimizer of the same class that combines gradients over the ranks before each step.

    Options and state are shared with `optimizer`, which should not be used any more. A saved model names the
    optimizer's own class and loads without ringtune. On a rank that is not in `process_set` the optimizer steps alone.

    Args:
        optimizer: Any optimizer of Keras 3. Give a `LossScaleOptimizer` whole: `DistributedOptimizer(LossScale...)`.
        name: Horovod's; without effect.
        use_locking: Horovod's; without effect.
        device_dense: Horovod's; without effect.
        device_sparse: Horovod's; without effect.
        compression: Encoding of gradients on the way, such as `Compression.fp16`.
        sparse_as_dense: Whether `tf.IndexedSlices`, of embeddings, travel as dense tensors, or are gathered.
        backward_passes_per_step: Backward passes whose gradients are added up on each rank before they are combined.
        op: `Average` or `Sum`.
        gradient_predivide_factor: Divisor before the sum, factor after it; for Average of 16-bit floats.
        average_aggregated_gradients: Whether the sum of several passes is divided by their number.
        num_groups: Horovod's older spelling of a number as `groups`.
        groups: Gradients that are reduced together, fused, all or none: a number of groups of consecutive variables, or
            lists of variables. Sparse gradients in a group travel as dense ones.
        process_set: Ranks that take part.
        scale_local_gradients: Whether those of `register_local_var()`, which stay here, are divided by the ranks.

    Raises:
        ConfigError: If an argument is not possible, or Keras does not run on TensorFlow.
    """
    del name, use_locking, device_dense, device_sparse
    plan = GradientPlan(
        reduction=gradient_reduction(op, gradient_predivide_factor, (Average, Sum)),
        compression=compression,
        is_sparse_as_dense=sparse_as_dense,
        groups=checked_groups(num_groups, groups),
        process_set=process_set,
        is_scaling_local=scale_local_gradients,
    )
    if backward_passes_per_step < 1:
        raise ConfigError(f"backward_passes_per_step={backward_passes_per_step} is not allowed; it must be at least 1")
    members = {
        "_reducer": GradientReducer(plan),
        "_passes": backward_passes_per_step,
        "_is_average_of_passes": average_aggregated_gradients,
    }
    return _wrapped(optimizer, members)


class DistributedMixin:
    """Mixin that stands before the wrapped optimizer's class in the wrapper's method order."""

    _reducer: GradientReducer
    _passes: int
    _is_average_of_passes: bool

    def register_local_var(self, var: Any) -> None:
        """Leave the gradients of a variable that this rank has for itself out of the reductions."""
        self._reducer.keep_local(var)

    def apply(self, grads: Sequence[Any], trainable_variables: Sequence[Any] | None = None) -> None:
        """Combine the gradients, mark the end of the step for the tuner, and step.

        Args:
            grads: One for each variable.
            trainable_variables: Variables on which the optimizer was built, or is to be.

        Raises:
            ConfigError: If a gradient cannot be taken.
            EngineError: If a gradient differs between ranks or the world is lost. Inside `tf.function`, and so in
                `model.fit`, TensorFlow raises an error of its own with the text.
        """
        own: Any = self
        inner: Any = super()
        if trainable_variables is None and not own.built:
            inner.apply(grads)  # which says what is missing
        variables = list(own._trainable_variables if trainable_variables is None else trainable_variables)  # noqa: SLF001
        if self._passes == 1:
            inner.apply(self._reducer.reduce(list(grads), variables), trainable_variables)
            return
        if not own.built:
            own.build(variables)

        def step(sums: list[Any]) -> None:
            inner.apply(self._reducer.reduce(sums, variables), trainable_variables)

        self._accumulator().add(list(grads), step)

    def __setattr__(self, name: str, value: Any) -> None:
        # Keras's LossScaleOptimizer clears this attribute in the optimizer that it takes over, whatever its value is.
        if name == "loss_scale_factor" and value is None and name in vars(self):
            raise ConfigError(
                "a LossScaleOptimizer around a DistributedOptimizer would decide on each rank alone whether to step; "
                "turn them round: DistributedOptimizer(keras.optimizers.LossScaleOptimizer(optimizer))"
            )
        super().__setattr__(name, value)

    def _accumulator(self) -> GradientAccumulator:
        """Return this instance's sums, kept out of the state that Keras tracks and saves."""
        members = vars(self)
        if "_sums_of_passes" not in members:
            members["_sums_of_passes"] = GradientAccumulator(self._passes, is_averaged=self._is_average_of_passes)
        accumulator: GradientAccumulator = members["_sums_of_passes"]
        return accumulator


def _wrapped(optimizer: Any, members: dict[str, Any]) -> Any:
    """Return an optimizer with the mixin before its own class, which shares all of its state.

    Args:
        optimizer: The caller's optimizer.
        members: Members of the new class, so that a copy made from its config has them as well.

    Raises:
        ConfigError: If it cannot be wrapped.
    """
    check_keras_backend()
    if isinstance(optimizer, DistributedMixin):
        raise ConfigError("this optimizer is distributed already; wrap it once")
    if not isinstance(optimizer, keras.optimizers.Optimizer):
        raise WrongTypeError(
            f"DistributedOptimizer needs an optimizer of Keras 3, not {type(optimizer).__module__}."
            f"{type(optimizer).__name__}; for others use DistributedGradientTape"
        )
    base = type(optimizer)
    # A saved model names the optimizer's own class, so that it can be loaded where ringtune is not installed.
    names = {"__module__": base.__module__, "__qualname__": base.__qualname__}
    wrapped_class: Any = type(base.__name__, (DistributedMixin, base), {**names, **members})
    wrapped = wrapped_class.__new__(wrapped_class)
    vars(wrapped).update(vars(optimizer))
    return wrapped
