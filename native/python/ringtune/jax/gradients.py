# SPDX-License-Identifier: Apache-2.0
"""Gradients of all ranks combined, inside and outside of compiled functions."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import ReduceOp, Reduction, reduction_of, world_of

from . import calls
from .collective import Collective, Kind
from .host import on_host
from .transformations import combined


class Combination(NamedTuple):
    """Way in which gradients are combined, apart from them: the arguments of `allreduce_gradients`.

    Attributes:
        op: `Average` (as None), `Sum` or `Adasum`.
        name: Beginning of the gradients' names.
        compression: Floating-point dtype in which wider gradients travel; None for their own.
        num_groups: Number of groups of consecutive gradients.
        process_set: Ranks that take part.
        is_step: Whether the gradients are those of a step, whose end is marked.
    """

    op: ReduceOp | None
    name: str
    compression: Any
    num_groups: int
    process_set: ProcessSet
    is_step: bool = True

    def combine(self, gradients: Any) -> Any:
        """Return a pytree of gradients combined; see `allreduce_gradients`."""
        paths, structure = jax.tree_util.tree_flatten_with_path(gradients)
        leaves = [leaf for _, leaf in paths]
        positions = [position for position, leaf in enumerate(leaves) if leaf.dtype != jax.dtypes.float0]
        names = tuple(f"{self.name}{jax.tree_util.keystr(paths[position][0])}" for position in positions)
        reduction, groups = reduction_of(None, self.op), _groups(len(names), self.num_groups)
        plan = _TreePlan(names, reduction, groups, self.process_set, self.is_step)
        sent = [_narrowed(leaves[position], self.compression) for position in positions]
        for position, result in zip(positions, _combine(sent, plan), strict=True):
            leaves[position] = result.astype(leaves[position].dtype)
        return structure.unflatten(leaves)


class _TreePlan(NamedTuple):
    """Way of one pytree of gradients, the same on all ranks."""

    names: tuple[str, ...]
    reduction: Reduction
    groups: tuple[slice, ...]
    process_set: ProcessSet
    is_step: bool

    def collective(self, part: slice) -> Collective:
        """Return the allreduce of some of the gradients, which travel as a group."""
        names = self.names[part]
        return Collective(
            Kind.ALLREDUCE,
            names,
            self.process_set,
            group=f"group.{names[0]}",
            reduction=self.reduction,
            is_gradient=self.is_step,
        )


def allreduce_gradients(
    gradients: Any,
    *,
    op: ReduceOp | None = None,
    name: str = "gradient",
    compression: Any = None,
    num_groups: int = 1,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Combine the gradients of a step over all ranks, and mark the end of the step for the tuner.

    Works inside and outside of compiled functions. Inside, each gradient is sent as soon as it is computed.

    Args:
        gradients: Pytree with one structure on all ranks. Leaves without a gradient (dtype `float0`) stay as they are.
        op: `Average` (default), `Sum` or `Adasum`.
        name: Beginning of the gradients' names. In a compiled function, the n-th call with a name meets the n-th of
            the other ranks.
        compression: Floating-point dtype in which wider gradients travel, such as `jnp.bfloat16`; None for their own.
        num_groups: Number of groups of consecutive gradients. The gradients of a group are sent together, once all of
            them are there; several groups let communication overlap with the backward pass of a large model.
        process_set: Ranks that take part.

    Returns:
        A pytree of the same structure and dtypes.

    Raises:
        ConfigError: If a gradient cannot be taken, or `num_groups` is not positive.
        MismatchError: If ranks have gradients of different shapes.
        EngineError: If the world is lost.
    """
    return Combination(op, name, compression, num_groups, process_set).combine(gradients)


def _combine(gradients: Sequence[Any], plan: _TreePlan) -> list[Any]:
    """Return dense gradients combined over the ranks, and mark the step."""
    world = world_of(plan.process_set)
    for name, gradient in zip(plan.names, gradients, strict=True) if plan.is_step else ():
        world.gradient_set.add(name, str(gradient.dtype), tuple(gradient.shape))
    if not gradients:
        return []
    if not calls.is_traced(gradients):
        return [jnp.asarray(result) for result in _on_host(plan, *(np.asarray(each) for each in gradients))]
    results: list[Any] = []
    for part in plan.groups:
        results += combined(gradients[part], plan.collective(part))
    if plan.is_step:
        calls.mark_step_after(results, plan.process_set)
    return results


def _on_host(plan: _TreePlan, *gradients: Any) -> list[Any]:
    """Return arrays of numpy combined over the ranks, and mark the step."""
    results = on_host(plan.collective(slice(None)), *gradients)
    if plan.is_step:
        world_of(plan.process_set).engine.mark_step()
    return results


def _groups(gradients: int, number: int) -> tuple[slice, ...]:
    """Return the positions of each group of consecutive gradients."""
    if number < 1:
        raise ConfigError(f"num_groups={number} is not possible; it is 1 or more")
    number = min(number, gradients)
    bounds = [position * gradients // number for position in range(number + 1)] if gradients else []
    return tuple(slice(begin, end) for begin, end in pairwise(bounds))


def _narrowed(gradient: Any, dtype: Any) -> Any:
    """Return a floating-point gradient in a narrower dtype; others as they are."""
    if dtype is None or not jnp.issubdtype(gradient.dtype, jnp.floating):
        return gradient
    is_wider = jnp.dtype(gradient.dtype).itemsize > jnp.dtype(dtype).itemsize
    return gradient.astype(dtype) if is_wider else gradient
