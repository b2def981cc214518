# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer with Adasum: ranks step alone, and what their steps changed is combined."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.handles import Handle, start_all, wait_for_all
from ringtune.process_sets import ProcessSet
from ringtune.submissions import Adasum, Reduction, check_reduction, start_allreduce, world_of
from ringtune.world import World

from .buffers import buffer_of, check_tensor
from .compression import CompressorClass
from .parameter_names import NamedParameter, positional_names

_ADASUM = Reduction(Adasum)


class AdasumMixin:
    """What stands before the wrapped optimizer's class in the wrapper's method order.

    Adasum is made for the differences that a step makes and not for gradients: Maleki et al. (2020), "Scaling
    distributed training with adaptive summation", section 4.
    """

    _named: list[NamedParameter]
    _compression: CompressorClass
    _process_set: ProcessSet
    _known_world: World | None

    def attach(
        self, named_parameters: Sequence[NamedParameter], compression: CompressorClass, process_set: ProcessSet
    ) -> None:
        """Take over what to combine; called once, before anything else."""
        self._named = list(named_parameters)
        self._compression = compression
        self._process_set = process_set
        self._known_world = None

    def synchronize(self) -> None:
        """Do nothing: gradients are not combined."""

    def skip_synchronize(self) -> AbstractContextManager[None]:
        """Raise `ConfigError`: a step combines what it changed, so that its communication cannot be left out."""
        raise ConfigError("skip_synchronize() is not possible with op=Adasum; call step() alone")

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step alone, combine the differences by Adasum, and mark the end of the step for the tuner.

        Args:
            closure: Computes loss and gradients anew; may be called several times.

        Returns:
            What the wrapped optimizer's `step` returns.

        Raises:
            EngineError: If a difference differs in shape between ranks or the world is lost.
        """
        inner: Any = super()
        is_alone = self._process_set.included() is False
        trained = [] if is_alone else [pair for pair in self._named if pair[1].requires_grad]
        before = [parameter.detach().clone() for _, parameter in trained]
        result = inner.step() if closure is None else inner.step(closure)
        if is_alone:
            return result
        world = world_of(self._process_set)
        self._tell(world)
        handles = start_all(
            self._combine(world, name, parameter, start)
            for (name, parameter), start in zip(trained, before, strict=True)
        )
        wait_for_all(handles)
        world.engine.mark_step()
        return result

    # torch wraps the `step` of every optimizer class with its profiler once; the inner one has that already.
    step.hooked = True  # type: ignore[attr-defined]

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a group of parameters and combine what steps change in them from now on."""
        inner: Any = super()
        inner.add_param_group(param_group)
        optimizer: Any = self
        position = len(optimizer.param_groups) - 1
        self._named += positional_names(optimizer.param_groups[position:], position)
        self._known_world = None

    def _combine(self, world: World, name: str, parameter: torch.nn.Parameter, start: torch.Tensor) -> Handle:
        travelling, context = self._compression.compress(parameter.detach() - start)
        buffer = buffer_of(check_tensor(f"the difference of {name}", travelling))
        operand = buffer.operand()
        check_reduction(f"the difference of {name}", operand.dtype, _ADASUM)

        def finish(_: object) -> None:
            with torch.no_grad():
                parameter.copy_(start + self._compression.decompress(buffer.memory, context))

        return start_allreduce(world, f"difference.{name}", (operand, operand), _ADASUM, finish, is_gradient=True)

    def _tell(self, world: World) -> None:
        """Tell a world, once, what a step submits."""
        if world is not self._known_world:
            self._known_world = world
            for name, parameter in self._named:
                world.gradient_set.add(f"difference.{name}", str(parameter.dtype), tuple(parameter.shape))
