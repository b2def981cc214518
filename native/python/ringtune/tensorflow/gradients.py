# SPDX-License-Identifier: Apache-2.0
"""Combines a step's gradients over the ranks, all in one call to the host, so that the engine can fuse them.

The call submits every gradient, waits for all, and marks the end of the step for the tuner.
"""

import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ringtune.arrays import Array
from ringtune.arrays.reductions import submit_allreduce
from ringtune.arrays.sparse import check_sparse_reduction, submit_sparse_allreduce
from ringtune.errors import ConfigError
from ringtune.handles import Handle, wait_for_all
from ringtune.process_sets import ProcessSet, global_process_set
from ringtune.submissions import (
    NO_GROUP,
    PLAIN_AVERAGE,
    Average,
    Group,
    ReduceOp,
    Reduction,
    reduction_of,
    world_of,
)
from ringtune.world import World

from .compression import Compression, CompressorClass
from .groups import Groups, grouped_positions
from .host import call_host, rows_like, spec_like
from .variables import leaf_name


@dataclass(frozen=True)
class GradientPlan:
    """How gradients are combined.

    Attributes:
        reduction: The operation and the scales.
        compression: How dense gradients travel.
        is_sparse_as_dense: Whether `tf.IndexedSlices` travel as dense tensors.
        groups: A number of groups, or lists of variables; None for no groups.
        process_set: Over which ranks.
    """

    reduction: Reduction = PLAIN_AVERAGE
    compression: CompressorClass = Compression.none
    is_sparse_as_dense: bool = False
    groups: Groups = None
    process_set: ProcessSet = global_process_set


def gradient_reduction(op: ReduceOp, predivide_factor: float, allowed: Sequence[ReduceOp]) -> Reduction:
    """Return how gradients are combined, from Horovod's arguments.

    Args:
        op: One of `allowed`.
        predivide_factor: With Average: gradients are divided by it before the sum and multiplied after.
        allowed: What the caller can do.

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
        plan: How to combine.
    """

    plan: GradientPlan
    _known_world: World | None = field(default=None, init=False, repr=False)
    _known_step: int = field(default=0, init=False, repr=False)

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
        step = _Step(self.plan, gradients, variables)

        def run(inputs: list[Array]) -> Sequence[Array]:
            world = world_of(self.plan.process_set)
            if world is not self._known_world or self._known_step != step.digest:
                self._known_world, self._known_step = world, step.digest
                step.tell(world)
            results = wait_for_all(step.start(world, iter(inputs)))
            world.engine.mark_step()
            return [array for result in results for array in (result if isinstance(result, tuple) else (result,))]

        return step.unpack(call_host(run, step.tensors(), step.specs()))


class _Step:
    """The gradients of one step, as they are when the graph is made."""

    def __init__(self, plan: GradientPlan, gradients: Sequence[Any], variables: Sequence[Any]) -> None:
        signature = [(leaf_name(variable), variable.dtype, tuple(variable.shape)) for variable in variables]
        # Not a counter, for a tape is made anew each step; not names of layers, which are counted in each process.
        self.digest = zlib.crc32(repr(signature).encode())
        names = [f"gradient.{self.digest:08x}.{position}.{leaf}" for position, (leaf, _, _) in enumerate(signature)]
        groups = _groups(plan, gradients, variables, names)
        self._count = len(gradients)
        self._entries: dict[int, _Dense | _Sparse] = {}
        for position, (name, gradient) in enumerate(zip(names, gradients, strict=True)):
            if gradient is None:
                continue
            if isinstance(gradient, tf.IndexedSlices) and not plan.is_sparse_as_dense and position not in groups:
                self._entries[position] = _Sparse(name, gradient, plan)
            else:
                self._entries[position] = _Dense(name, gradient, plan, groups.get(position, NO_GROUP))

    def tensors(self) -> list[Any]:
        """Return what goes to the host."""
        return [tensor for entry in self._entries.values() for tensor in entry.tensors]

    def specs(self) -> list[tf.TensorSpec]:
        """Return what comes back."""
        return [spec for entry in self._entries.values() for spec in entry.specs]

    def tell(self, world: World) -> None:
        """Tell a world which gradients a step submits."""
        for entry in self._entries.values():
            world.gradient_set.add(entry.name, entry.dtype, entry.shape)

    def start(self, world: World, inputs: Iterator[Array]) -> list[Handle]:
        """Submit all gradients."""
        return [entry.start(world, inputs) for entry in self._entries.values()]

    def unpack(self, results: Sequence[Any]) -> list[Any]:
        """Return the gradients as the caller gave them, from what came back."""
        rest = iter(results)
        found = {position: entry.unpack(rest) for position, entry in self._entries.items()}
        return [found.get(position) for position in range(self._count)]


class _Dense:
    """A gradient that is added up element by element."""

    def __init__(self, name: str, gradient: Any, plan: GradientPlan, group: Group) -> None:
        tensor = tf.convert_to_tensor(gradient)
        travelling, self._context = plan.compression.compress(tensor)
        self.name = name
        self.dtype, self.shape = tensor.dtype.name, tuple(tensor.shape)
        self.tensors = [travelling]
        self.specs = [spec_like(travelling)]
        self._plan = plan
        self._group = group

    def start(self, world: World, inputs: Iterator[Array]) -> Handle:
        """Submit it."""
        reduction = self._plan.reduction
        return submit_allreduce(world, self.name, next(inputs), reduction, group=self._group, is_gradient=True)

    def unpack(self, results: Iterator[Any]) -> Any:
        """Return the combined gradient."""
        return self._plan.compression.decompress(next(results), self._context)


class _Sparse:
    """A gradient of some rows, such as an embedding's; ranks gather each other's."""

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
        return submit_sparse_allreduce(world, self.name, next(inputs), next(inputs), self._op)

    def unpack(self, results: Iterator[Any]) -> Any:
        """Return the combined gradient."""
        return tf.IndexedSlices(next(results), next(results), dense_shape=self._dense_shape)


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
