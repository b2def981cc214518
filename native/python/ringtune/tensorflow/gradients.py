# SPDX-License-Identifier: Apache-2.0
"""Combines a step's gradients over the ranks, and marks the end of the step for the tuner.

In a graph each dense gradient is submitted as soon as it is computed, where the operations for it have been built.
Otherwise one call to the host submits all of them together, so that the engine can fuse them, and waits for all.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Literal

import tensorflow as tf

from ringtune.arrays import Array
from ringtune.arrays.reductions import submit_allreduce
from ringtune.arrays.sparse import check_sparse_reduction, submit_sparse_allreduce
from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import (
    NO_GROUP,
    PLAIN_AVERAGE,
    Average,
    Group,
    ReduceOp,
    Reduction,
    check_reduction,
    reducible_number,
    reduction_of,
    world_of,
)
from ringtune.world.handles import Handle, start_all, wait_for_all
from ringtune.world.world import World

from .compression import Compression, CompressorClass
from .graph_operations import GraphOperations, can_take, graph_operations, warn_once
from .groups import Groups, grouped_positions, variable_key
from .host import call_host, rows_like, spec_like
from .variables import leaf_name


@dataclass(frozen=True)
class GradientPlan:
    """Reduction, compression and groups of gradients.

    Attributes:
        reduction: The operation and the scales.
        compression: Encoding of dense gradients on the way.
        is_sparse_as_dense: Whether `tf.IndexedSlices` travel as dense tensors.
        groups: A number of groups, or lists of variables; None for no groups.
        process_set: Ranks that take part.
        is_scaling_local: Whether gradients of local variables, which are not combined, are divided by the number of
            ranks, as those of a joint loss.
    """

    reduction: Reduction = PLAIN_AVERAGE
    compression: CompressorClass = Compression.none
    is_sparse_as_dense: bool = False
    groups: Groups = None
    process_set: ProcessSet = global_process_set
    is_scaling_local: bool = True


def gradient_reduction(op: ReduceOp, predivide_factor: float, allowed: Sequence[ReduceOp]) -> Reduction:
    """Return how gradients are combined, from Horovod's arguments.

    Args:
        op: One of `allowed`.
        predivide_factor: Divisor of gradients before the sum, factor after it; for Average.
        allowed: Advice for the caller.

    Raises:
        ConfigError: If the arguments are not possible.
    """
    if op not in allowed:
        names = ", ".join(other.name.title() for other in allowed)
        raise ConfigError(f"op={reduction_of(op=op).op.name.title()} is not supported for gradients here; use {names}")
    if predivide_factor == 1.0:
        return reduction_of(op=op)
    if op != Average or predivide_factor <= 0:
        raise ConfigError(
            f"gradient_predivide_factor={predivide_factor} is not possible; it is above 0 and goes with op=Average"
        )
    return reduction_of(None, op, 1.0 / predivide_factor, predivide_factor)


@dataclass
class GradientReducer:
    """Combines the gradients of one optimizer or tape.

    Attributes:
        plan: Reduction, compression and groups of the gradients.
    """

    plan: GradientPlan
    _known_world: World | None = field(default=None, init=False, repr=False)
    _known_step: int = field(default=0, init=False, repr=False)
    _local: dict[int, Any] = field(default_factory=dict, init=False, repr=False)  # variables, by their key

    def keep_local(self, variable: Any) -> None:
        """Leave the gradients of a variable that this rank has for itself out of the reductions."""
        self._local[variable_key(variable)] = variable

    def reduce(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return the gradients combined over the ranks; eagerly now, in a graph when it comes to it.

        Args:
            gradients: Tensors, `tf.IndexedSlices` or None; those that are None stay it.
            variables: One for each gradient, in one order on all ranks.

        Raises:
            ConfigError: If a gradient cannot be taken, or inside a function that XLA compiles.
            EngineError: If a gradient differs in shape between ranks or the world is lost.
        """
        if self.plan.process_set.included() is False:
            return list(gradients)
        own = {position for position, variable in enumerate(variables) if variable_key(variable) in self._local}
        if own:
            return self._combine_shared(gradients, variables, own)
        return self._combine(gradients, variables)

    def _combine_shared(self, gradients: Sequence[Any], variables: Sequence[Any], own: set[int]) -> list[Any]:
        """Return gradients combined over the ranks, except those at the positions of local variables."""
        shared = [position for position in range(len(variables)) if position not in own]
        combined = self._combine([gradients[each] for each in shared], [variables[each] for each in shared])
        results = dict(zip(shared, combined, strict=True))
        ranks = world_of(self.plan.process_set).size if self.plan.is_scaling_local else 1
        return [
            _divided(gradient, ranks) if position in own else results[position]
            for position, gradient in enumerate(gradients)
        ]

    def _combine(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """Return gradients combined over the ranks; see `reduce`."""
        step = _Step(self.plan, gradients, variables)
        operations = None if tf.executing_eagerly() else graph_operations()
        if operations is not None and operations.module is not None:
            return step.unpack(self._reduce_in_graph(step, operations))
        complaint = "" if operations is None else operations.complaint

        def run(inputs: list[Array]) -> Sequence[Array]:
            world = self._enter(step)
            if complaint:
                warn_once(world.console, complaint)
            results = _run_on_host(world, step.entries, inputs)
            world.engine.mark_step()
            return results

        return step.unpack(call_host(run, _tensors(step.entries), _specs(step.entries)))

    def _reduce_in_graph(self, step: "_Step", operations: GraphOperations) -> list[Any]:
        """Return the results of a step's gradients, in order: those of the operations and those of the host."""
        door = operations.open_door(lambda: self._enter(step))
        others = [entry for entry in step.entries if not entry.can_go_in_graph]

        def run(inputs: list[Array]) -> Sequence[Array]:
            return _run_on_host(world_of(self.plan.process_set), others, inputs)

        from_host = iter(call_host(run, _tensors(others), _specs(others)) if others else ())
        results: list[Any] = []
        for entry in step.entries:
            if entry.can_go_in_graph:
                results.append(entry.allreduce(operations, door))
            else:
                results += islice(from_host, len(entry.specs))
        operations.mark_step(door, results)
        return results

    def _enter(self, step: "_Step") -> World:
        """Return the world that a step begins in, once it knows which gradients the step submits."""
        world = world_of(self.plan.process_set)
        if world is not self._known_world or self._known_step != step.digest:
            self._known_world, self._known_step = world, step.digest
            for entry in step.entries:
                world.gradient_set.add(entry.name, entry.dtype, entry.shape)
        return world


class _Step:
    """The gradients of one step, as they are when the graph is made."""

    def __init__(self, plan: GradientPlan, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        signature = [(leaf_name(variable), variable.dtype, tuple(variable.shape)) for variable in variables]
        # No counter, for a tape is made anew each step; no names of layers, which are counted in each process.
        self.digest = zlib.crc32(repr(signature).encode())
        names = [f"gradient.{self.digest:08x}.{position}.{leaf}" for position, (leaf, _, _) in enumerate(signature)]
        groups = _groups(plan, gradients, variables, names)
        self._positions: list[int] = []
        self._count = len(gradients)
        self.entries: list[_Dense | _Sparse] = []
        for position, (name, gradient) in enumerate(zip(names, gradients, strict=True)):
            if gradient is None:
                continue
            self._positions.append(position)
            if isinstance(gradient, tf.IndexedSlices) and not plan.is_sparse_as_dense and position not in groups:
                self.entries.append(_Sparse(name, gradient, plan))
            else:
                self.entries.append(_Dense(name, gradient, plan, groups.get(position, NO_GROUP)))

    def unpack(self, results: Sequence[Any]) -> list[Any]:
        """Return the gradients as the caller gave them, from the results of the entries in order."""
        rest = iter(results)
        found: list[Any] = [None] * self._count
        for position, entry in zip(self._positions, self.entries, strict=True):
            found[position] = entry.unpack(rest)
        return found


class _Dense:
    """A gradient that is added up element by element."""

    def __init__(self, name: str, gradient: Any, plan: GradientPlan, group: Group) -> None:
        tensor = tf.convert_to_tensor(gradient)
        travelling, self._context = plan.compression.compress(tensor)
        check_reduction(name, reducible_number(name, travelling.dtype.name), plan.reduction)  # before any is submitted
        self.name = name
        self.dtype, self.shape = tensor.dtype.name, tuple(tensor.shape)
        self.tensors = [travelling]
        self.specs = [spec_like(travelling)]
        self.can_go_in_graph = can_take(travelling.dtype)
        self._plan = plan
        self._group = group

    def allreduce(self, operations: GraphOperations, door: Any) -> Any:
        """Return the result as a node of the graph."""
        return operations.allreduce_gradient(door, self.name, self.tensors[0], self._plan.reduction, self._group)

    def start(self, world: World, inputs: Iterator[Array]) -> Handle:
        """Submit it."""
        reduction = self._plan.reduction
        return submit_allreduce(world, self.name, next(inputs), reduction, group=self._group, is_gradient=True)

    def unpack(self, results: Iterator[Any]) -> Any:
        """Return the combined gradient."""
        return self._plan.compression.decompress(next(results), self._context)


class _Sparse:
    """A gradient of some rows, such as an embedding's; ranks gather each other's."""

    can_go_in_graph: Literal[False] = False

    def __init__(self, name: str, gradient: tf.IndexedSlices, plan: GradientPlan) -> None:
        check_sparse_reduction(plan.reduction.op)
        self.name = name
        self.dtype, self.shape = gradient.values.dtype.name, tuple(gradient.shape)
        self.tensors = [gradient.values, gradient.indices]
        self.specs = [rows_like(gradient.values), rows_like(gradient.indices)]
        self._dense_shape = gradient.dense_shape
        self._op = plan.reduction.op

    def start(self, world: World, inputs: Iterator[Array]) -> Handle:
        """Submit it."""
        return submit_sparse_allreduce(world, self.name, next(inputs), next(inputs), self._op, is_gradient=True)

    def unpack(self, results: Iterator[Any]) -> Any:
        """Return the combined gradient."""
        return tf.IndexedSlices(next(results), next(results), dense_shape=self._dense_shape)


def _divided(gradient: Any, ranks: int) -> Any:
    """Return a local gradient divided by a number; one that is None stays it."""
    if gradient is None or ranks == 1:
        return gradient
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values / ranks, gradient.indices, dense_shape=gradient.dense_shape)
    return gradient / ranks


def _tensors(entries: Sequence[_Dense | _Sparse]) -> list[Any]:
    """Return the tensors that go to the host."""
    return [tensor for entry in entries for tensor in entry.tensors]


def _specs(entries: Sequence[_Dense | _Sparse]) -> list[tf.TensorSpec]:
    """Return the specs of the tensors that come back from the host."""
    return [spec for entry in entries for spec in entry.specs]


def _run_on_host(world: World, entries: Sequence[_Dense | _Sparse], inputs: Sequence[Array]) -> list[Array]:
    """Submit gradients, wait for all, and return the arrays of all results."""
    rest = iter(inputs)
    results = wait_for_all(start_all(entry.start(world, rest) for entry in entries))
    return [array for result in results for array in (result if isinstance(result, tuple) else (result,))]


def _groups(
    plan: GradientPlan, gradients: Sequence[Any], variables: Sequence[Any], names: Sequence[str]
) -> Mapping[int, Group]:
    """Return the groups of the gradients that there are, by position; one alone is no group."""
    lists = [
        [position for position in members if gradients[position] is not None]
        for members in grouped_positions(plan.groups, variables)
    ]
    return {
        position: Group(f"group.{names[members[0]]}", len(members))
        for members in lists
        for position in members
        if len(members) > 1
    }
