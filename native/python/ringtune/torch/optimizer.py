# SPDX-License-Identifier: Apache-2.0
"""`DistributedOptimizer`: any torch optimizer, with its gradients combined over the ranks before each step."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.process_sets import ProcessSet, global_process_set
from ringtune.submissions import Adasum, Average, ReduceOp, Reduction, Sum, reduction_of, world_of

from .adasum_optimizer import AdasumMixin
from .allreduce import allreduce
from .compression import Compression, CompressorClass
from .gradients import GradientPlan, GradientReducer, NamedParameter
from .parameter_names import Groups, groups_of, named_parameters_of, positional_names

Closure = Callable[[], Any]


def DistributedOptimizer(  # noqa: N802, PLR0917  (Horovod's name and signature)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[NamedParameter] | None = None,
    compression: CompressorClass = Compression.none,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Groups = None,
    sparse_as_dense: bool = False,  # noqa: FBT002  (Horovod's signature)
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Return an optimizer of the same class that combines gradients over the ranks before each step.

    Parameter groups, options and state are shared with `optimizer`, which should not be used any more. The result has
    two methods more: `synchronize()` waits for the gradients, for clipping, and `skip_synchronize()` is a context in
    which `step()` does not wait again. Gradients are submitted while backward runs. A parameter that got no gradient
    on this rank counts as zeros. With a closure, the loss that the inner optimizer sees is averaged as well, so that
    all ranks decide alike. On a rank that is not in `process_set` the optimizer steps alone.

    With `op=Adasum` each rank steps with its own gradients, and what the steps changed is combined by Adasum.

    Args:
        optimizer: Any torch optimizer.
        named_parameters: `model.named_parameters()`; without it, names are made from the position.
        compression: How gradients travel, such as `Compression.fp16`.
        backward_passes_per_step: Backward passes whose gradients are summed on each rank before they are combined.
        op: `Average`, `Sum` or `Adasum`.
        gradient_predivide_factor: With Average: gradients are divided by it before the sum and multiplied after, so
            that sums stay in the range of 16-bit floats.
        num_groups: Horovod's older spelling of a number as `groups`.
        groups: Gradients that are reduced together, fused, all or none: a number of groups of consecutive parameters,
            or lists of parameters. Sparse gradients in a group travel as dense ones.
        sparse_as_dense: Whether sparse gradients are reduced as dense ones; they are sparse again afterwards.
        process_set: Over which ranks.

    Raises:
        ConfigError: If names repeat or are missing, or an argument is not possible.
    """
    if isinstance(optimizer, DistributedMixin | AdasumMixin):
        raise ConfigError("this optimizer is distributed already; wrap it once")
    if backward_passes_per_step < 1:
        raise ConfigError(f"backward_passes_per_step={backward_passes_per_step} is not allowed; it must be at least 1")
    reduction = _reduction(op, gradient_predivide_factor)
    named = named_parameters_of(optimizer, named_parameters)
    if op == Adasum:
        adasum: AdasumMixin = _wrapped(optimizer, AdasumMixin)
        adasum.attach(named, compression, process_set)
        return adasum
    plan = GradientPlan(
        passes_per_step=backward_passes_per_step,
        reduction=reduction,
        compression=compression,
        groups=groups_of(num_groups or None if groups is None else groups, named),
        is_sparse_as_dense=sparse_as_dense,
        process_set=process_set,
    )
    wrapped: DistributedMixin = _wrapped(optimizer, DistributedMixin)
    wrapped.attach(GradientReducer(named, plan), process_set)
    return wrapped


def _reduction(op: ReduceOp, predivide_factor: float) -> Reduction:
    if op not in {Average, Sum, Adasum}:
        raise ConfigError(
            f"op={reduction_of(op=op).op.name.title()} is not supported by DistributedOptimizer; it has Average, Sum "
            "and Adasum"
        )
    if predivide_factor == 1.0:
        return reduction_of(op=op)
    if op != Average or predivide_factor <= 0:
        raise ConfigError(
            f"gradient_predivide_factor={predivide_factor} is not possible; it is above 0 and goes with op=Average"
        )
    return reduction_of(None, op, 1.0 / predivide_factor, predivide_factor)


def _wrapped(optimizer: torch.optim.Optimizer, mixin: type) -> Any:
    """Return an optimizer with the mixin before its own class, which shares all of its state."""
    base = type(optimizer)
    wrapped_class: Any = type(base.__name__, (mixin, base), {})
    wrapped = wrapped_class.__new__(wrapped_class)
    # A scheduler made before has replaced `step` on the instance; that one would step without combining.
    wrapped.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    return wrapped


class DistributedMixin:
    """What stands before the wrapped optimizer's class in the wrapper's method order."""

    _reducer: GradientReducer
    _process_set: ProcessSet
    _should_synchronize: bool
    _is_synchronized: bool

    def attach(self, reducer: GradientReducer, process_set: ProcessSet) -> None:
        """Take over the reducer; called once, before anything else."""
        self._reducer = reducer
        self._process_set = process_set
        self._should_synchronize = True
        self._is_synchronized = False

    def synchronize(self) -> None:
        """Wait until all gradients are combined; raises `EngineError` if one cannot be."""
        self._reducer.synchronize()
        self._is_synchronized = True

    @contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """Let `step()` not wait for gradients inside this context; call `synchronize()` before it."""
        self._should_synchronize = False
        try:
            yield
        finally:
            self._should_synchronize = True

    def set_backward_passes_per_step(self, passes: int) -> None:
        """Change how many backward passes are accumulated, between two steps."""
        if passes < 1:
            raise ConfigError(f"backward_passes_per_step={passes} is not allowed; it must be at least 1")
        self._reducer.passes_per_step = passes

    def step(self, closure: Closure | None = None) -> Any:
        """Combine the gradients, step, and mark the end of the step for the tuner.

        Args:
            closure: Computes loss and gradients anew; may be called several times.

        Returns:
            What the wrapped optimizer's `step` returns.

        Raises:
            EngineError: If a gradient differs between ranks or the world is lost.
        """
        inner: Any = super()
        if self._process_set.included() is False:
            return inner.step() if closure is None else inner.step(closure)
        world = world_of(self._process_set)
        if closure is not None:
            result = inner.step(self._averaged(closure))
        else:
            self._before_step()
            result = inner.step()
        self._is_synchronized = False
        world.engine.mark_step()
        return result

    # torch wraps the `step` of every optimizer class with its profiler once; the inner one has that already.
    step.hooked = True  # type: ignore[attr-defined]

    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT002  (torch's signature)
        """Reset the gradients.

        Raises:
            ConfigError: If gradients are being combined: call `step()` or `synchronize()` first.
        """
        if self._reducer.is_in_flight:
            raise ConfigError(
                "zero_grad() was called after backward() but before step() or synchronize(), while the gradients are "
                "being combined; call one of them first"
            )
        self._is_synchronized = False
        inner: Any = super()
        inner.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters and combine their gradients from now on."""
        inner: Any = super()
        inner.add_param_group(param_group)
        optimizer: Any = self
        position = len(optimizer.param_groups) - 1
        self._reducer.add(positional_names(optimizer.param_groups[position:], position))

    def _before_step(self) -> None:
        is_in_flight = self._reducer.is_in_flight
        if self._should_synchronize:
            if is_in_flight or not self._is_synchronized:
                self._reducer.synchronize()
        elif is_in_flight:
            raise ConfigError(
                "step() was called in skip_synchronize() while gradients are being combined; call synchronize() first"
            )

    def _averaged(self, closure: Closure) -> Closure:
        def averaged_closure() -> Any:
            with torch.enable_grad():
                loss = closure()
            self._reducer.synchronize()
            if isinstance(loss, torch.Tensor):
                return allreduce(loss.detach(), name="closure.loss", process_set=self._process_set)
            return loss

        return averaged_closure
