# SPDX-License-Identifier: Apache-2.0
"""Transport of one gradient: dense in place, compressed, sparse, or sparse as dense."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch

from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import NO_GROUP, PLAIN_AVERAGE, Group, Reduction, start_allreduce
from ringtune.world.handles import Finish, Handle
from ringtune.world.world import World

from .buffers import buffer_of, check_tensor
from .compression import Compression, CompressorClass
from .gradient_entries import GradientEntry
from .sparse import sparse_allreduce_async


@dataclass(frozen=True)
class GradientPlan:
    """Reduction, compression and groups of gradients.

    Attributes:
        passes_per_step: Backward passes that are accumulated here before a gradient is submitted.
        reduction: The operation and the scales.
        compression: Encoding of gradients on the way.
        groups: Groups by the parameter's `id`; parameters that are not here are reduced on their own.
        is_sparse_as_dense: Whether sparse gradients travel as dense ones.
        process_set: Ranks that take part.
    """

    passes_per_step: int = 1
    reduction: Reduction = PLAIN_AVERAGE
    compression: CompressorClass = Compression.none
    groups: Mapping[int, Group] = field(default_factory=dict)
    is_sparse_as_dense: bool = False
    process_set: ProcessSet = global_process_set


class GradientTransport:
    """Starts the reduction of gradients as a plan has it."""

    def __init__(self, plan: GradientPlan) -> None:
        """Follow the plan.

        Args:
            plan: Reduction, compression and groups of the gradients.
        """
        self._plan = plan
        self.is_plain = plan.compression is Compression.none
        """Whether dense gradients travel as they are."""

    def start(self, world: World, entry: GradientEntry, gradient: torch.Tensor) -> Handle:
        """Start to reduce a gradient; once the handle was waited for, the result is the parameter's gradient.

        Raises:
            ConfigError: If the gradient cannot be taken.
            EngineError: If the world is lost.
        """
        if self.is_plain and gradient.layout is torch.strided:
            return self._start_dense(world, entry, gradient, None)
        return self._start_otherwise(world, entry, gradient)

    def _start_dense(self, world: World, entry: GradientEntry, tensor: torch.Tensor, finish: Finish | None) -> Handle:
        """Reduce a dense tensor in place; sums of complex numbers are those of their parts."""
        if tensor.is_complex():
            complex_memory = tensor.resolve_conj()
            if complex_memory is not tensor:
                finish = _copying(tensor, complex_memory, finish)
            tensor = torch.view_as_real(complex_memory)
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
            finish or (lambda _: None),
            group=entry.group,
            is_gradient=True,
        )

    def _start_otherwise(self, world: World, entry: GradientEntry, gradient: torch.Tensor) -> Handle:
        """Reduce a sparse gradient, or one that travels compressed."""
        parameter, plan = entry.parameter, self._plan
        entry.is_sparse = gradient.is_sparse
        if not gradient.is_sparse:
            travelling, context = plan.compression.compress(gradient)

            def finish(_: object) -> None:
                gradient.copy_(plan.compression.decompress(travelling, context))

            return self._start_dense(world, entry, travelling, finish)
        if plan.is_sparse_as_dense or entry.group is not NO_GROUP:  # a group has room for dense tensors alone
            dense, context = plan.compression.compress(gradient.to_dense())
            sparse_dimensions = gradient.sparse_dim()

            def finish_sparse(_: object) -> None:
                parameter.grad = plan.compression.decompress(dense, context).to_sparse(sparse_dimensions)

            return self._start_dense(world, entry, dense, finish_sparse)
        handle = sparse_allreduce_async(gradient, entry.name, plan.reduction.op, plan.process_set, is_gradient=True)
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


def _copying(tensor: torch.Tensor, memory: torch.Tensor, finish: Finish | None) -> Finish:
    def copy_and_finish(result: Any) -> None:
        tensor.copy_(memory)
        if finish is not None:
            finish(result)

    return copy_and_finish
