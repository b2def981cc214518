# SPDX-License-Identifier: Apache-2.0
"""Collectives that combine the ranks' values: allreduce, reduce, reduce-scatter, dense and sparse."""

from collections.abc import Sequence
from functools import reduce as fold
from typing import Any

import torch

from ringtune.errors import ConfigError
from ringtune.session.submissions import start_allgather, start_allreduce, start_reducescatter
from ringtune.torch.buffers import operand_of, tensor_of
from ringtune.world.world import World

from .calls import Calls
from .keys import reduction_key
from .memory import dense, flat, joined, offered, part, room_for, share_memory, write_back
from .reductions import Plan, as_reals, plan_of
from .works import EngineWork, Pending


class Reducing:
    """The reducing collectives of one group."""

    def __init__(self, world: World, calls: Calls) -> None:
        """Serve a group.

        Args:
            world: The group's world.
            calls: The group's calls.
        """
        self._world = world
        self._calls = calls

    def allreduce(
        self, kind: str, tensors: Sequence[torch.Tensor], operation: Any, limit_s: float | None
    ) -> EngineWork:
        """Combine each tensor over all ranks, in place.

        Args:
            kind: Name of the call.
            tensors: Dense tensors of any strides.
            operation: Torch's reduction.
            limit_s: Time limit of the call, seconds; None for the group's.
        """
        if len(tensors) == 1 and tensors[0].layout is not torch.strided:
            return self._allreduce_sparse(tensors[0], operation, limit_s)
        plans = [plan_of(operation, tensor.dtype) for tensor in tensors]
        key = reduction_key(kind, plans[0].name, tensors) if tensors else (kind,)

        def submit(name: str) -> list[Pending]:
            if len(tensors) == 1:
                return [self._start(name, tensors[0], tensors[0], plans[0])]
            is_shared = share_memory(tensors)
            return [
                self._start(f"{name} {index}", tensor, tensor, plan, is_shared=is_shared)
                for index, (tensor, plan) in enumerate(zip(tensors, plans, strict=True))
            ]

        return self._calls.start(key, submit, list(tensors), limit_s)

    def reduce(self, tensor: torch.Tensor, root: int, operation: Any, limit_s: float | None) -> EngineWork:
        """Combine a tensor over all ranks, in place on the root; elsewhere it stays as it is."""
        plan = plan_of(operation, tensor.dtype)
        target = tensor if root == self._world.rank else torch.empty_like(tensor)
        key = (*reduction_key("reduce", plan.name, [tensor]), "to", root)
        return self._calls.start(key, lambda name: [self._start(name, tensor, target, plan)], [tensor], limit_s)

    def reduce_scatter(
        self, output: torch.Tensor, inputs: Sequence[torch.Tensor], operation: Any, limit_s: float | None
    ) -> EngineWork:
        """Combine each of one tensor per rank, and keep this rank's; their sizes may differ."""
        if len(inputs) != self._world.size:
            raise ConfigError(f"reduce_scatter needs one tensor per rank, {self._world.size}, and got {len(inputs)}")
        plan = plan_of(operation, output.dtype)
        key = reduction_key("reduce_scatter", plan.name, inputs)
        counts = [tensor.numel() for tensor in inputs]

        def submit(name: str) -> list[Pending]:
            return [self._start_scattered(name, output, joined(inputs), counts, plan)]

        return self._calls.start(key, submit, [output], limit_s)

    def reduce_scatter_single(
        self,
        outputs: Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor],
        operation: Any,
        limit_s: float | None,
    ) -> EngineWork:
        """Combine tensors that hold one equal part per rank, and keep this rank's part of each."""
        plan = plan_of(operation, inputs[0].dtype)
        size = self._world.size
        for output, given in zip(outputs, inputs, strict=True):
            if given.numel() != size * output.numel() or given.dtype != output.dtype:
                raise ConfigError(
                    f"reduce_scatter_tensor needs an input of {size} times the output's elements and of its dtype: got "
                    f"{given.dtype} {tuple(given.shape)} for {output.dtype} {tuple(output.shape)}"
                )
        key = reduction_key("reduce_scatter_tensor", plan.name, inputs)

        def submit(name: str) -> list[Pending]:
            return [
                self._start_scattered(f"{name} {index}", output, flat(dense(given)), [output.numel()] * size, plan)
                for index, (output, given) in enumerate(zip(outputs, inputs, strict=True))
            ]

        return self._calls.start(key, submit, list(outputs), limit_s)

    def _start(
        self, name: str, source: torch.Tensor, target: torch.Tensor, plan: Plan, *, is_shared: bool = False
    ) -> Pending:
        """Start to combine one tensor into another one of its shape, or into itself.

        Args:
            name: Name of the operation.
            source: Tensor of this rank.
            target: Tensor for the result.
            plan: Reduction.
            is_shared: Whether other operations use the target's memory meanwhile: the result is made elsewhere.
        """
        given = dense(source).clone() if is_shared else dense(source)
        if plan.factor is not None:
            given = given * plan.factor.to(given.device)
        if plan.reduction is None:
            return self._start_gathered(name, given, target, plan)
        if source is target and plan.factor is None:
            memory, own = given, operand_of(as_reals(given))
            ends = own, own
        else:
            memory = torch.empty_like(given) if is_shared else room_for(target)
            ends = operand_of(as_reals(given)), operand_of(as_reals(memory))
        if memory.data_ptr() == target.data_ptr():
            return start_allreduce(self._world, name, ends, plan.reduction, lambda _: None)  # type: ignore[return-value]
        return start_allreduce(  # type: ignore[return-value]
            self._world, name, ends, plan.reduction, lambda _: write_back(target, memory)
        )

    def _start_gathered(self, name: str, given: torch.Tensor, target: torch.Tensor, plan: Plan) -> Pending:
        """Start to gather a tensor of every rank, and combine them when they are here."""
        combine = plan.combine
        if combine is None:
            raise AssertionError("a reduction is the engine's or has a function")
        everything = torch.empty((self._world.size, given.numel()), dtype=given.dtype, device=given.device)

        def finish(_result: Any) -> None:
            write_back(target, fold(combine, everything).view(target.shape))

        return start_allgather(  # type: ignore[return-value]
            self._world, name, operand_of(flat(given)), finish, output=offered(everything)
        )

    def _start_scattered(
        self, name: str, output: torch.Tensor, given: torch.Tensor, counts: Sequence[int], plan: Plan
    ) -> Pending:
        rank = self._world.rank
        if plan.factor is not None:
            given = given * plan.factor.to(given.device)
        if plan.reduction is None or len(set(counts)) > 1:
            return self._start_kept(name, output, given, counts, plan)
        memory = room_for(output)
        source = operand_of(as_reals(given.view(len(counts), counts[rank])))
        target = operand_of(as_reals(memory))
        return start_reducescatter(  # type: ignore[return-value]
            self._world, name, (source, target), plan.reduction, lambda _: write_back(output, memory)
        )

    def _start_kept(
        self, name: str, output: torch.Tensor, given: torch.Tensor, counts: Sequence[int], plan: Plan
    ) -> Pending:
        """Start to combine all parts, and keep one: for parts that differ, and for reductions made of gathered ones."""
        rank = self._world.rank
        begin = sum(counts[:rank])
        kept = slice(begin, begin + counts[rank])
        total = torch.empty_like(given)
        if plan.reduction is None:
            combine = plan.combine
            everything = torch.empty((self._world.size, given.numel()), dtype=given.dtype, device=given.device)

            def finish(_result: Any) -> None:
                write_back(output, fold(combine, everything)[kept])  # type: ignore[arg-type]

            return start_allgather(  # type: ignore[return-value]
                self._world, name, operand_of(given), finish, output=offered(everything)
            )
        ends = operand_of(as_reals(given)), operand_of(as_reals(total))
        return start_allreduce(  # type: ignore[return-value]
            self._world, name, ends, plan.reduction, lambda _: part(total[kept], [output])
        )

    def _allreduce_sparse(self, tensor: torch.Tensor, operation: Any, limit_s: float | None) -> EngineWork:
        """Sum a sparse tensor: the ranks' entries are gathered and added up."""
        plan = plan_of(operation, tensor.dtype)
        if tensor.layout is not torch.sparse_coo or plan.name != "SUM":
            raise ConfigError(
                f"allreduce of {tensor.layout} tensors is a SUM of torch.sparse_coo ones, not {plan.name}"
            )
        given = tensor.detach().coalesce()
        rows = operand_of(given.indices().t().contiguous()), operand_of(given.values().contiguous())
        found: dict[int, torch.Tensor] = {}

        def note(index: int, result: Any) -> None:
            found[index] = tensor_of(result, rows[index]).clone()
            if len(found) == len(rows):
                total = torch.sparse_coo_tensor(found[0].t(), found[1], tensor.shape, check_invariants=False)
                with torch.no_grad():
                    tensor.copy_(total.coalesce())

        def submit(name: str) -> list[Pending]:
            return [
                start_allgather(self._world, f"{name} {index}", row, lambda result, at=index: note(at, result))  # type: ignore[misc]
                for index, row in enumerate(rows)
            ]

        key = ("all_reduce", *reduction_key("sparse", plan.name, [given.values()[:0]]))
        return self._calls.start(key, submit, [tensor], limit_s)
