# SPDX-License-Identifier: Apache-2.0
"""Combines gradients over the ranks while backward still runs.

A hook on every parameter submits its gradient as soon as autograd has accumulated it; `synchronize` submits what the
backward pass left out and waits for all. The hook runs in autograd's threads, everything else in the main thread;
backward has returned before `synchronize` is called, so no lock is needed.
"""

import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from ringtune.errors import ConfigError, RingtuneError
from ringtune.handles import Finish, Handle
from ringtune.process_sets import ProcessSet, global_process_set
from ringtune.submissions import (
    NO_GROUP,
    PLAIN_AVERAGE,
    Group,
    Reduction,
    start_allreduce,
    world_of,
)
from ringtune.world import World

from .buffers import buffer_of, check_tensor
from .compression import Compression, CompressorClass
from .registered_gradients import GradientHome, can_have_home, has_use, lay_out
from .sparse import sparse_allreduce_async

NamedParameter = tuple[str, torch.nn.Parameter]


@dataclass(frozen=True)
class GradientPlan:
    """How gradients are combined.

    Attributes:
        passes_per_step: Backward passes that are accumulated here before a gradient is submitted.
        reduction: The operation and the scales.
        compression: How gradients travel.
        groups: By the parameter's `id`; parameters that are not here are reduced on their own.
        is_sparse_as_dense: Whether sparse gradients travel as dense ones.
        process_set: Over which ranks.
    """

    passes_per_step: int = 1
    reduction: Reduction = PLAIN_AVERAGE
    compression: CompressorClass = Compression.none
    groups: Mapping[int, Group] = field(default_factory=dict)
    is_sparse_as_dense: bool = False
    process_set: ProcessSet = global_process_set


class _Entry:
    """One parameter, and how far its gradient has come in this step."""

    __slots__ = ("group", "handle", "home", "is_sparse", "name", "parameter", "passes")

    def __init__(self, name: str, parameter: torch.nn.Parameter, group: Group) -> None:
        self.name = name
        self.parameter = parameter
        self.group = group
        self.is_sparse = False  # as the last gradient was
        self.passes = 0
        self.handle: Handle | None = None
        self.home: GradientHome | None = None

    @property
    def needs_home(self) -> bool:
        """Whether its gradients could live in registered memory and do not."""
        return self.home is None and not self.is_sparse and can_have_home(self.parameter)


class GradientReducer:
    """Owns the hooks of one optimizer's parameters and the operations in flight."""

    def __init__(self, named_parameters: Sequence[NamedParameter], plan: GradientPlan) -> None:
        """Register a hook per parameter that needs a gradient.

        Args:
            named_parameters: Distinct names, the same on all ranks.
            plan: How to combine.
        """
        self._plan = plan
        self._is_plain = plan.compression is Compression.none
        self._process_set = plan.process_set
        self._passes_per_step = plan.passes_per_step
        self._entries: dict[int, _Entry] = {}
        self._in_flight: list[_Entry] = []
        self._world: World | None = None
        self._needs_layout = True
        self.add(named_parameters)

    def add(self, named_parameters: Sequence[NamedParameter]) -> None:
        """Take in more parameters, with names that are new."""
        for name, parameter in named_parameters:
            if not parameter.requires_grad:
                continue
            group = self._plan.groups.get(id(parameter), NO_GROUP)
            entry = self._entries[id(parameter)] = _Entry(f"gradient.{name}", parameter, group)
            if self._world is not None:
                self._world.gradient_set.add(entry.name, str(parameter.dtype), tuple(parameter.shape))
            untyped: Any = parameter  # torch leaves the method without annotations
            untyped.register_post_accumulate_grad_hook(_Hook(self))
            self._needs_layout = True

    @property
    def is_in_flight(self) -> bool:
        """Whether gradients were submitted, in the world that there is, and not yet waited for."""
        return bool(self._in_flight) and self._process_set.included() is True and self._process_set.world is self._world

    @property
    def passes_per_step(self) -> int:
        """Backward passes whose gradients are accumulated before they are submitted; may be changed between steps."""
        return self._passes_per_step

    @passes_per_step.setter
    def passes_per_step(self, passes: int) -> None:
        self._passes_per_step = passes
        for entry in self._entries.values():
            entry.passes = 0

    def gradient_ready(self, parameter: torch.Tensor) -> None:
        """Take note that autograd has accumulated a gradient; submit it if this was its last pass.

        Raises:
            ConfigError: If the gradient was submitted before and not yet waited for, or cannot be taken.
            EngineError: If the world is lost.
        """
        entry = self._entries.get(id(parameter))
        if entry is None:  # a copy of the parameter, made with its hooks
            return
        world = self._world
        if world is None or self._process_set.world is not world:
            world = self._joined_world()
            if world is None:  # this rank is not in the set
                return
        if entry.handle is not None:
            raise ConfigError(
                f"{entry.name} was computed more than backward_passes_per_step={self._passes_per_step} times before "
                "step(); raise backward_passes_per_step, or call step() after each backward pass. The gradients are "
                "unusable now: call synchronize() and zero_grad()"
            )
        entry.passes += 1
        if entry.passes >= self._passes_per_step:
            self._submit(world, entry)

    def synchronize(self) -> None:
        """Submit gradients that the backward pass did not reach, and wait until all are combined.

        A parameter without a gradient counts as zeros, for other ranks may have one.

        Raises:
            EngineError: If a gradient differs between ranks or the world is lost; the first error, after all other
                gradients were waited for.
        """
        world = self._joined_world()
        if world is None:
            return
        try:
            for entry in self._entries.values():
                if entry.handle is None:
                    self._submit(world, entry)
        finally:
            entries, self._in_flight = self._in_flight, []
            error = _wait_for(entries)
            for entry in self._entries.values():
                entry.passes = 0
        if error is not None:
            raise error
        if self._needs_layout:
            self._lay_out(world, entries)

    def _joined_world(self) -> World | None:
        """Return the world of now, telling it once which gradients a step submits; None if this rank is not in it."""
        if self._process_set.included() is False:
            return None
        world = world_of(self._process_set)
        if world is not self._world:
            self._world = world
            for entry in self._in_flight:  # of a world that is no more
                entry.handle = None
            self._in_flight = []
            self._needs_layout = True
            for entry in self._entries.values():
                entry.passes = 0
                entry.home = None
                world.gradient_set.add(entry.name, str(entry.parameter.dtype), tuple(entry.parameter.shape))
        return world

    def _lay_out(self, world: World, ready: Sequence[_Entry]) -> None:
        """Find homes for gradients that have none, after the first step of a world and of a new parameter.

        Args:
            world: The world of now.
            ready: All entries, in the order in which they were submitted.
        """
        entries = list(self._entries.values())
        homes: Mapping[int, GradientHome] | None = {}
        if entries and self._is_plain and self._process_set is global_process_set and has_use(world):
            homeless = [entries.index(entry) for entry in ready if entry.needs_home]
            homes = lay_out(world, entries[0].name, [entry.parameter for entry in entries], homeless)
        if homes is not None:
            self._needs_layout = False
            for index, home in homes.items():
                entries[index].home = home

    def _submit(self, world: World, entry: _Entry) -> None:
        gradient = None if entry.home is None or entry.is_sparse else entry.home.take_in(entry.parameter)
        if gradient is None:
            gradient = entry.parameter.grad
        if gradient is None:
            gradient = entry.parameter.grad = _zeros(entry)
        if self._is_plain and gradient.layout is torch.strided:
            entry.handle = self._start(world, entry, gradient, None)
        else:
            entry.handle = self._start_otherwise(world, entry, gradient)
        self._in_flight.append(entry)

    def _start(self, world: World, entry: _Entry, tensor: torch.Tensor, finish: Finish | None) -> Handle:
        """Reduce a dense tensor in place."""
        check_tensor(entry.name, tensor)
        buffer = buffer_of(tensor)
        operand = buffer.operand()
        if buffer.is_copy:
            finish = _copying(tensor, buffer.memory, finish)
        return start_allreduce(
            world,
            entry.name,
            (operand, operand),
            self._plan.reduction,
            finish or _nothing,
            group=entry.group,
            is_gradient=True,
        )

    def _start_otherwise(self, world: World, entry: _Entry, gradient: torch.Tensor) -> Handle:
        """Reduce a sparse gradient, or one that travels compressed."""
        parameter, plan = entry.parameter, self._plan
        entry.is_sparse = gradient.is_sparse
        if not gradient.is_sparse:
            travelling, context = plan.compression.compress(gradient)

            def finish(_: object) -> None:
                gradient.copy_(plan.compression.decompress(travelling, context))

            return self._start(world, entry, travelling, finish)
        if plan.is_sparse_as_dense or entry.group is not NO_GROUP:  # a group has room for dense tensors alone
            dense, context = plan.compression.compress(gradient.to_dense())
            sparse_dimensions = gradient.sparse_dim()

            def finish_sparse(_: object) -> None:
                parameter.grad = plan.compression.decompress(dense, context).to_sparse(sparse_dimensions)

            return self._start(world, entry, dense, finish_sparse)
        handle = sparse_allreduce_async(gradient, entry.name, plan.reduction.op, self._process_set, is_gradient=True)
        return _Sparse(parameter, handle)


class _Sparse(Handle):
    """A sparse allreduce whose result becomes the parameter's gradient."""

    __slots__ = ("_handle", "_parameter")

    def __init__(self, parameter: torch.nn.Parameter, handle: Handle) -> None:
        self._parameter = parameter
        self._handle = handle

    def poll(self) -> bool:
        return self._handle.poll()

    def wait(self) -> None:
        self._parameter.grad = self._handle.wait()


def _zeros(entry: _Entry) -> torch.Tensor:
    """Return the gradient of a parameter that took no part, in the layout that it had before."""
    parameter = entry.parameter
    if not entry.is_sparse:
        return torch.zeros_like(parameter)
    rows, *row = parameter.shape
    indices = torch.empty((1, 0), dtype=torch.int64)
    values = torch.empty((0, *row), dtype=parameter.dtype)
    return torch.sparse_coo_tensor(indices, values, (rows, *row), is_coalesced=True, check_invariants=False)


def _wait_for(entries: Sequence[_Entry]) -> RingtuneError | None:
    """Wait for all gradients; return the first error."""
    first: RingtuneError | None = None
    for entry in entries:
        handle, entry.handle = entry.handle, None
        try:
            if handle is not None:
                handle.wait()
        except RingtuneError as error:
            first = first or error
    return first


def _copying(tensor: torch.Tensor, memory: torch.Tensor, finish: Finish | None) -> Finish:
    def copy_and_finish(result: Any) -> None:
        tensor.copy_(memory)
        if finish is not None:
            finish(result)

    return copy_and_finish


def _nothing(_: object) -> None:
    return None


class _Hook:
    """Calls the reducer as long as its optimizer lives, so that a replaced optimizer's hooks do nothing."""

    def __init__(self, reducer: GradientReducer) -> None:
        self._reducer = weakref.ref(reducer)

    def __call__(self, parameter: torch.Tensor) -> None:
        reducer = self._reducer()
        if reducer is not None:
            reducer.gradient_ready(parameter)
