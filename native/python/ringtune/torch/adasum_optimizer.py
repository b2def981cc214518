# SPDX-License-Identifier: Apache-2.0
"""The distributed optimizer with Adasum: ranks step alone, and the changes of their steps are combined."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from ringtune.errors import ConfigError, MismatchError
from ringtune.session.process_sets import ProcessSet
from ringtune.session.submissions import Adasum, Max, Reduction, Sum, check_reduction, start_allreduce, world_of
from ringtune.world.handles import Handle, start_all, wait_for_all
from ringtune.world.world import World

from .allreduce import allreduce
from .buffers import buffer_of, check_tensor
from .compression import CompressorClass
from .parameter_names import NamedParameter, positional_names
from .same_parameters import OPTIMIZER, check_same_parameters, difference_of_parameters
from .step_ends import mark_optimizer_step, note_gradient
from .step_notes import StepNote, StepNotes
from .untraced import untraced
from .wrapped_optimizer import WrappedOptimizer, counted_by_schedulers

_ADASUM = Reduction(Adasum)


class AdasumMixin(WrappedOptimizer):
    """An optimizer whose steps' differences are combined by Adasum.

    Adasum is made for the differences that a step makes and not for gradients: Maleki et al. (2020), "Scaling
    distributed training with adaptive summation", section 4.
    """

    _labels: dict[torch.nn.Parameter, str]  # the parameters' names, for messages
    _names: dict[torch.nn.Parameter, str]  # keys that match the parameters' differences across ranks
    _compression: CompressorClass
    _process_set: ProcessSet
    _known_world: World | None
    _has_news: bool  # true if parameters changed since the ranks compared them
    _opt_called: bool  # torch's: schedulers look whether there was a step

    def attach(
        self, named_parameters: Sequence[NamedParameter], compression: CompressorClass, process_set: ProcessSet
    ) -> None:
        """Take over the parameters to combine; called once, before any other method."""
        self._compression = compression
        self._process_set = process_set
        self._labels, self._names = {}, {}
        self._has_news = True
        self._known_world = None
        self._name_parameters(named_parameters)

    def synchronize(self) -> None:
        """Return at once: gradients are not combined."""

    def skip_synchronize(self) -> AbstractContextManager[None]:
        """Raise `ConfigError`: a step combines its own changes, so that its communication cannot be left out."""
        raise ConfigError("skip_synchronize() is not possible with op=Adasum; call step() alone")

    @counted_by_schedulers
    @untraced
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Step alone, combine the differences by Adasum, and mark the end of the step for the tuner.

        Args:
            closure: Computes loss and gradients anew; may be called several times.

        Returns:
            The result of the wrapped optimizer's `step`.

        Raises:
            ConfigError: If ranks train different parameters; raised on every rank.
            EngineError: If a difference differs in shape between ranks or the world is lost.
        """
        inner: Any = super()
        self._opt_called = True
        if self._process_set.included() is False:
            return inner.step() if closure is None else inner.step(closure)
        world = world_of(self._process_set)
        parameters = self._take_stock(world)
        before = [parameter.detach().clone() for parameter in parameters]
        result = inner.step() if closure is None else inner.step(closure)
        absent = self._absent_everywhere(world, parameters)
        handles = start_all(
            self._combine(world, parameter, start)
            for index, (parameter, start) in enumerate(zip(parameters, before, strict=True))
            if index not in absent
        )
        wait_for_all(handles)
        mark_optimizer_step(world, self)
        return result

    def before_unscaling(self) -> None:
        """Let all ranks find an infinity where one has it, so that a `GradScaler` skips and scales alike on all."""
        if self._process_set.included() is False:
            return
        dense = self._gradient_values()
        is_finite = all(bool(gradient.isfinite().all()) for gradient in dense)
        overflow = torch.tensor([0 if is_finite else 1], dtype=torch.int32, device="cpu")
        name = f"{OPTIMIZER}.overflow"
        if allreduce(overflow, name=name, op=Max, process_set=self._process_set).item() and is_finite:
            for gradient in dense:
                gradient.fill_(float("inf"))  # the step is skipped, and nothing of it used

    def _gradient_values(self) -> list[torch.Tensor]:
        """Return the memory of the gradients that there are."""
        gradients = [parameter.grad for parameter in self._all_parameters()]
        return [
            gradient._values() if gradient.is_sparse else gradient  # noqa: SLF001  (a view, also if not coalesced)
            for gradient in gradients
            if gradient is not None
        ]

    def _all_parameters(self) -> list[torch.nn.Parameter]:
        return list(dict.fromkeys(parameter for group in self.param_groups for parameter in group["params"]))

    def _take_stock(self, world: World) -> list[torch.nn.Parameter]:
        """Return the parameters, named, and tell a world once which differences a step submits."""
        parameters = self._all_parameters()
        if list(map(id, parameters)) != list(map(id, self._names)):
            self._name_parameters(positional_names(self.param_groups, 0))
            self._names = {parameter: self._names[parameter] for parameter in parameters}
            self._has_news = True
        if self._has_news or world is not self._known_world:
            self._has_news, self._known_world = True, world
            for parameter in parameters:
                if parameter.requires_grad:
                    note_gradient(world, self._names[parameter], parameter)
        return parameters

    def _name_parameters(self, named_parameters: Sequence[NamedParameter]) -> None:
        for name, parameter in named_parameters:
            if parameter not in self._names:
                self._names[parameter] = self._process_set.claim_name(f"difference.{name}")
                self._labels[parameter] = name

    def _absent_everywhere(self, world: World, parameters: Sequence[torch.nn.Parameter]) -> frozenset[int]:
        """Return the indices of the parameters that no rank had a gradient for."""
        absent = tuple(index for index, parameter in enumerate(parameters) if parameter.grad is None)
        notes = StepNotes(f"{OPTIMIZER}.note", len(parameters), Reduction(Sum))
        named = [(self._labels[parameter], parameter) for parameter in parameters]
        handle, table = notes.start(world, StepNote(has_news=self._has_news, absent=absent))
        try:
            handle.wait()
        except MismatchError:  # the numbers of parameters differ
            raise difference_of_parameters(self._process_set, named) from None
        agreed = notes.read(table)
        if agreed.has_news:
            check_same_parameters(world, self._process_set, named)
            self._has_news = False
        return frozenset(agreed.absent)

    def _combine(self, world: World, parameter: torch.nn.Parameter, start: torch.Tensor) -> Handle:
        name = self._names[parameter]
        travelling, context = self._compression.compress(parameter.detach() - start)
        buffer = buffer_of(check_tensor(f"the {name}", travelling))
        operand = buffer.operand()
        check_reduction(f"the {name}", operand.dtype, _ADASUM)

        def finish(_: object) -> None:
            with torch.no_grad():
                parameter.copy_(start + self._compression.decompress(buffer.memory, context))

        return start_allreduce(world, name, (operand, operand), _ADASUM, finish, is_gradient=True)
