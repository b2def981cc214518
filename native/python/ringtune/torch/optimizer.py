# SPDX-License-Identifier: Apache-2.0
"""`DistributedOptimizer`: any torch optimizer, with its gradients combined over the ranks before each step."""

import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Adasum, Average, ReduceOp, Reduction, Sum, reduction_of, world_of

from .adasum_optimizer import AdasumMixin
from .allreduce import allreduce
from .compression import Compression, CompressorClass
from .gradient_transport import GradientPlan
from .gradients import GradientReducer
from .parameter_names import Groups, NamedParameter, groups_of, named_parameters_of
from .step_ends import mark_optimizer_step
from .untraced import untraced
from .wrapped_optimizer import WrappedOptimizer, counted_by_schedulers, wrapped

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
    """Let an optimizer combine gradients over the ranks before each step, and return it.

    It is the same object, of a class derived from its own. `synchronize()` waits for the gradients, for clipping;
    `skip_synchronize()` is a context in which `step()` does not wait again. A closure's loss is averaged as well. On a
    rank that is not in `process_set` the optimizer steps alone. A parameter that no rank has used keeps its value; one
    that some have used counts as zeros on the others. From `backward()` to `synchronize()` or `step()` gradients must
    be neither read nor written: a write that torch knows of is a `ConfigError` on every rank. With `op=Adasum` each
    rank steps with its own gradients, and the changes of the steps are combined by Adasum.

    Args:
        optimizer: Any torch optimizer.
        named_parameters: `model.named_parameters()`; without it, names are made from the position.
        compression: Encoding of gradients on the way, such as `Compression.fp16`.
        backward_passes_per_step: Backward passes whose gradients are summed on each rank before they are combined.
        op: `Average`, `Sum` or `Adasum`.
        gradient_predivide_factor: For Average: gradients are divided by it before the sum and multiplied after, so
            that sums stay in the range of 16-bit floats.
        num_groups: Horovod's older spelling of a number as `groups`.
        groups: Gradients that are reduced together, fused, all or none: a number of groups of consecutive parameters,
            or lists of parameters. Sparse gradients in a group travel as dense ones.
        sparse_as_dense: Whether sparse gradients are reduced as dense ones; they are sparse again afterwards.
        process_set: Ranks that take part.

    Raises:
        ConfigError: If names repeat or are missing, or an argument is not possible.
    """
    if isinstance(optimizer, WrappedOptimizer):
        raise ConfigError("this optimizer is distributed already; wrap it once")
    if backward_passes_per_step < 1:
        raise ConfigError(f"backward_passes_per_step={backward_passes_per_step} is not allowed; it must be at least 1")
    reduction = _reduction(op, gradient_predivide_factor)
    named = named_parameters_of(optimizer, named_parameters)
    if op == Adasum:
        adasum = wrapped(optimizer, AdasumMixin)
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
    reducer = GradientReducer(named, plan)
    distributed = wrapped(optimizer, DistributedMixin)
    distributed.attach(reducer, process_set)
    return distributed


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


class DistributedMixin(WrappedOptimizer):
    """An optimizer whose gradients are combined over the ranks before each step."""

    _reducer: GradientReducer
    _process_set: ProcessSet
    _should_synchronize: bool
    _was_synchronized: bool  # true if the caller has synchronized
    _opt_called: bool  # torch's: schedulers look whether there was a step

    def attach(self, reducer: GradientReducer, process_set: ProcessSet) -> None:
        """Take over the reducer; called once, before anything else."""
        self._reducer = reducer
        self._process_set = process_set
        self._should_synchronize = True
        self._was_synchronized = False

    @untraced
    def synchronize(self) -> None:
        """Wait until all gradients are combined.

        Raises:
            ConfigError: If a gradient was changed in flight, or ranks have different parameters; on every rank.
            EngineError: If a gradient cannot be combined.
        """
        if self._reducer.is_combined and not self._has_replaced():
            warnings.warn(
                "optimizer.synchronize() called twice without a backward pass between; the gradients are combined "
                "already and stay as they are.",
                stacklevel=2,
            )
            return
        self._combine()
        self._note_gradients()
        self._was_synchronized = True

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

    @counted_by_schedulers
    @untraced
    def step(self, closure: Closure | None = None) -> Any:
        """Combine the gradients, step, and mark the end of the step for the tuner.

        Args:
            closure: Computes loss and gradients anew; may be called several times. Gradients of a backward pass before
                the step are combined, too.

        Returns:
            The result of the wrapped optimizer's `step`.

        Raises:
            ConfigError: See `synchronize`; raised before the step, on every rank.
            EngineError: If a gradient differs between ranks or the world is lost.
        """
        inner: Any = super()
        self._opt_called = True
        if self._process_set.included() is False:
            return inner.step() if closure is None else inner.step(closure)
        world = world_of(self._process_set)
        if closure is not None:
            if self._reducer.is_pending:  # an optimizer of several steps uses them before it calls the closure
                self._combine_unless_skipped(is_early=True)
            result = inner.step(self._averaged(closure))
        else:
            self._before_step()
            result = inner.step()
        self._was_synchronized = self._reducer.is_combined = False
        mark_optimizer_step(world, self)
        return result

    @untraced
    def zero_grad(self, set_to_none: bool = True) -> None:  # noqa: FBT002  (torch's signature)
        """Reset the gradients and the backward passes that were accumulated.

        Gradients that are being combined are waited for and thrown away, on all ranks alike.

        Raises:
            ConfigError: If other ranks step with them, or weights were changed by them outside of `step()` so that the
                ranks' weights differ; raised on every rank.
        """
        self._start_over()
        inner: Any = super()
        inner.zero_grad(set_to_none=set_to_none)

    @untraced
    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the optimizer's state, and forget the backward passes that were accumulated.

        Raises:
            ConfigError: See `zero_grad`.
        """
        self._start_over()
        inner: Any = super()
        inner.load_state_dict(state_dict)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters and combine their gradients from now on."""
        inner: Any = super()
        inner.add_param_group(param_group)
        self._reducer.adopt(self.param_groups)

    def before_unscaling(self) -> None:
        """Combine the gradients before a `GradScaler` looks for infinities, so that all ranks skip and scale alike."""
        if self._process_set.included() is not False:
            self._before_step(is_for_scaler=True)
            self._note_gradients()

    def _start_over(self) -> None:
        self._reducer.throw_away(self.param_groups)
        self._was_synchronized = False

    def _combine(self, *, is_early: bool = False) -> None:
        self._reducer.synchronize(self.param_groups, is_early=is_early)

    def _note_gradients(self) -> None:
        for entry in self._reducer.entries:
            entry.note()

    def _has_replaced(self) -> bool:
        """Return whether gradients were assigned since they were noted, as those of `torch.func` are: no hook runs."""
        return any(entry.is_replaced() for entry in self._reducer.entries)

    def _before_step(self, *, is_for_scaler: bool = False) -> None:
        """Combine the gradients unless they are; refuse to step with gradients of this rank alone."""
        reducer = self._reducer
        # Between its two steps a scaler asks once: gradients assigned since then are those of the next step.
        is_next = is_for_scaler and not self._was_synchronized and self._has_replaced()
        if is_next or not reducer.is_combined:
            self._combine_unless_skipped()
            return
        name = reducer.lacks(self.param_groups)
        if name is not None:
            raise ConfigError(
                f"parameter {name} came into param_groups after synchronize(), so that its gradient is that of this "
                "rank alone; change param_groups before synchronize()"
            )
        if self._should_synchronize and self._was_synchronized and not is_for_scaler:
            warnings.warn(
                "optimizer.step() called without optimizer.skip_synchronize() context after optimizer.synchronize(). "
                "The gradients are not combined again; say so by `with optimizer.skip_synchronize(): "
                "optimizer.step()`.",
                stacklevel=3,
            )

    def _combine_unless_skipped(self, *, is_early: bool = False) -> None:
        if self._should_synchronize:
            self._combine(is_early=is_early)
        elif any(parameter.grad is not None for group in self.param_groups for parameter in group["params"]):
            raise ConfigError(
                "step() was called in skip_synchronize() while gradients are not combined; call synchronize() first, "
                "after the last backward pass"
            )

    def _averaged(self, closure: Closure) -> Closure:
        def averaged_closure() -> Any:
            reducer = self._reducer
            was_combined = reducer.is_combined
            reducer.is_combined = False
            self._note_gradients()
            with torch.enable_grad():
                loss = closure()
            if was_combined and not reducer.is_in_flight and not any(entry.is_changed() for entry in reducer.entries):
                reducer.is_combined = True  # the closure has computed the loss alone
            if not reducer.is_combined:
                self._combine()
            return _average_loss(loss, self._process_set)

        return averaged_closure


def _average_loss(loss: Any, process_set: ProcessSet) -> Any:
    """Return the mean of the ranks' losses: a tensor, a number or a scalar of numpy's; other values unchanged."""
    if isinstance(loss, torch.Tensor):
        return allreduce(loss.detach(), name="closure.loss", process_set=process_set)
    number = loss[()] if isinstance(loss, np.ndarray) and loss.ndim == 0 else loss
    if isinstance(number, bool) or not isinstance(number, int | float | np.integer | np.floating):
        return loss
    travelling = torch.tensor(float(number), dtype=torch.float64, device="cpu")
    mean = allreduce(travelling, name="closure.loss", process_set=process_set).item()
    return type(number)(mean) if isinstance(number, np.floating) else mean
