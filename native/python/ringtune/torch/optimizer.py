# SPDX-License-Identifier: Apache-2.0
"""`DistributedOptimizer`: any torch optimizer, with its gradients averaged over the ranks before each step."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session import SESSION

from .gradients import GradientReducer, NamedParameter
from .operations import Average, ReduceOp, allreduce

Closure = Callable[[], Any]


def DistributedOptimizer(  # noqa: N802  (Horovod's name)
    optimizer: torch.optim.Optimizer,
    named_parameters: Iterable[tuple[str, torch.nn.Parameter]] | None = None,
    *,
    backward_passes_per_step: int = 1,
    op: ReduceOp = Average,
) -> Any:
    """Return an optimizer of the same class that averages gradients over the ranks before each step.

    Parameter groups, options and state are shared with `optimizer`, which should not be used any more. The result has
    two methods more: `synchronize()` waits for the gradients, for clipping, and `skip_synchronize()` is a context in
    which `step()` does not wait again. Gradients are submitted while backward runs. A parameter that got no gradient
    on this rank counts as zeros. With a closure, the loss that the inner optimizer sees is averaged as well, so that
    all ranks decide alike.

    Args:
        optimizer: Any torch optimizer.
        named_parameters: `model.named_parameters()`; without it, names are made from the position.
        backward_passes_per_step: Backward passes whose gradients are summed on each rank before they are averaged.
        op: `Average`; this version has no other.

    Raises:
        ConfigError: If names repeat or are missing, or an argument is not supported.
    """
    if isinstance(optimizer, DistributedMixin):
        raise ConfigError("this optimizer is distributed already; wrap it once")
    if op != Average:
        raise ConfigError(f"op={op!r} is not supported by DistributedOptimizer; this version has Average")
    if backward_passes_per_step < 1:
        raise ConfigError(f"backward_passes_per_step={backward_passes_per_step} is not allowed; it must be at least 1")
    named = _named_parameters(optimizer, None if named_parameters is None else list(named_parameters))
    base = type(optimizer)
    wrapped_class: Any = type(base.__name__, (DistributedMixin, base), {})
    wrapped = wrapped_class.__new__(wrapped_class)
    # A scheduler made before has replaced `step` on the instance; that one would step without averaging.
    wrapped.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    wrapped.attach(GradientReducer(named, backward_passes_per_step))
    return wrapped


class DistributedMixin:
    """What stands before the wrapped optimizer's class in the wrapper's method order."""

    _reducer: GradientReducer
    _should_synchronize: bool
    _is_synchronized: bool

    def attach(self, reducer: GradientReducer) -> None:
        """Take over the reducer; called once, before anything else."""
        self._reducer = reducer
        self._should_synchronize = True
        self._is_synchronized = False

    def synchronize(self) -> None:
        """Wait until all gradients are averaged; raises `EngineError` if one cannot be."""
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

    def step(self, closure: Closure | None = None) -> Any:
        """Average the gradients, step, and mark the end of the step for the tuner.

        Args:
            closure: Computes loss and gradients anew; may be called several times.

        Returns:
            What the wrapped optimizer's `step` returns.

        Raises:
            EngineError: If a gradient differs between ranks or the world is lost.
        """
        world = SESSION.require()
        inner: Any = super()
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
            ConfigError: If gradients are being averaged: call `step()` or `synchronize()` first.
        """
        if self._reducer.is_in_flight:
            raise ConfigError(
                "zero_grad() was called after backward() but before step() or synchronize(), while the gradients are "
                "being averaged; call one of them first"
            )
        self._is_synchronized = False
        inner: Any = super()
        inner.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters and average their gradients from now on."""
        inner: Any = super()
        inner.add_param_group(param_group)
        optimizer: Any = self
        position = len(optimizer.param_groups) - 1
        self._reducer.add(_positional_names(optimizer.param_groups[position:], position))

    def _before_step(self) -> None:
        is_in_flight = self._reducer.is_in_flight
        if self._should_synchronize:
            if is_in_flight or not self._is_synchronized:
                self._reducer.synchronize()
        elif is_in_flight:
            raise ConfigError(
                "step() was called in skip_synchronize() while gradients are being averaged; call synchronize() first"
            )

    def _averaged(self, closure: Closure) -> Closure:
        def averaged_closure() -> Any:
            with torch.enable_grad():
                loss = closure()
            self._reducer.synchronize()
            if isinstance(loss, torch.Tensor):
                return allreduce(loss.detach(), name="closure.loss")
            return loss

        return averaged_closure


def _named_parameters(
    optimizer: torch.optim.Optimizer, named_parameters: Sequence[NamedParameter] | None
) -> Sequence[NamedParameter]:
    """Return a distinct name for every parameter of the optimizer."""
    if named_parameters is None:
        return _positional_names(optimizer.param_groups, 0)
    _check_distinct([name for name, _ in named_parameters])
    by_id = {id(parameter): name for name, parameter in named_parameters}
    own = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    nameless = sum(id(parameter) not in by_id for parameter in own)
    if nameless:
        raise ConfigError(
            f"named_parameters lacks {nameless} of the optimizer's {len(own)} parameters; pass "
            "model.named_parameters() of the whole model, or leave it out"
        )
    return [(by_id[id(parameter)], parameter) for parameter in own]


def _check_distinct(names: Sequence[str]) -> None:
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ConfigError(f"named_parameters repeats the names {', '.join(repeated)}; names must be distinct")


def _positional_names(groups: Sequence[dict[str, Any]], first_group: int) -> list[NamedParameter]:
    return [
        (f"noname.{first_group + group_number}.{position}", parameter)
        for group_number, group in enumerate(groups)
        for position, parameter in enumerate(group["params"])
    ]
