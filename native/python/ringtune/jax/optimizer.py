# SPDX-License-Identifier: Apache-2.0
"""An Optax optimizer that combines the gradients of all ranks before each update, and other inputs of an update."""

from collections.abc import Callable, Mapping
from functools import wraps
from itertools import count
from typing import TYPE_CHECKING, Any

import jax

from ringtune.errors import ConfigError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import Average, ReduceOp, Sum, world_of

from .gradients import Combination
from .reductions import allreduce

if TYPE_CHECKING:
    import optax

_optimizers = count()


def distributed(
    optimizer: "optax.GradientTransformation",
    *,
    op: ReduceOp | None = None,
    name: str | None = None,
    compression: Any = None,
    num_groups: int = 1,
    process_set: ProcessSet = global_process_set,
) -> "optax.GradientTransformationExtraArgs":
    """Return an Optax optimizer that combines the gradients of all ranks before each update.

    It may step several models in one compiled function: the n-th update there meets the n-th of the other ranks.
    Several batches make one step by `optax.MultiSteps(distributed(...), every_k_schedule=k)`, which sends a gradient
    only when an update is due.

    Optimizers that read more than the gradient get that combined as well, from each rank's own batch: `value`, `grad`,
    and the results of `value_fn` and `grad_fn`. So all ranks take the same steps in a line search
    (`optax.lbfgs`), by a plateau (`reduce_on_plateau`), and with a second gradient (`sam`). `obj_fn` is refused.

    Args:
        optimizer: The optimizer of one rank.
        op: See `allreduce_gradients`. A value is summed with `Sum`, else averaged.
        name: Beginning of the gradients' names; without one, optimizers are matched by the order in which they are
            made.
        compression: See `allreduce_gradients`.
        num_groups: See `allreduce_gradients`.
        process_set: Ranks that take part.

    Raises:
        ConfigError: By an update that is given `obj_fn`, with more than one rank.
    """
    import optax  # noqa: PLC0415  (only this function needs it)

    if name is None:
        number = next(_optimizers)
        name = "gradient" if number == 0 else f"gradient.{number}"
    inner = optax.with_extra_args_support(optimizer)
    combination = Combination(op, name, compression, num_groups, process_set)

    def update(updates: Any, state: Any, params: Any = None, **extra: Any) -> Any:
        combined = combination.combine(updates)
        return inner.update(combined, state, params, **_combined_extra(combination, extra, updates, combined))

    return optax.GradientTransformationExtraArgs(inner.init, update)


def _combined_extra(
    combination: Combination, extra: Mapping[str, Any], updates: Any, combined: Any
) -> Mapping[str, Any]:
    """Return the further arguments of an update, those combined that differ from rank to rank.

    Args:
        combination: The way of the gradients.
        extra: Further arguments of the update.
        updates: Gradients of this rank.
        combined: Those of all ranks.
    """
    if extra.get("obj_fn") is not None and world_of(combination.process_set).size > 1:
        raise ConfigError(
            "distributed() cannot combine obj_fn, whose second derivatives each rank would take of its own batch; "
            "use an optimizer that reads gradients, values or value_fn"
        )
    agreed = dict(extra)
    more = combination._replace(name=f"{combination.name}.more", is_step=False)
    if extra.get("value") is not None:
        agreed["value"] = _agreed_value(combination, extra["value"])
    if extra.get("grad") is not None:
        agreed["grad"] = combined if _are_same(extra["grad"], updates) else more.combine(extra["grad"])
    if extra.get("value_fn") is not None:
        agreed["value_fn"] = _agreed_value_function(more, extra["value_fn"])
    if extra.get("grad_fn") is not None:
        gradients_of = extra["grad_fn"]
        agreed["grad_fn"] = wraps(gradients_of)(lambda *args, **named: more.combine(gradients_of(*args, **named)))
    return agreed


def _are_same(left: Any, right: Any) -> bool:
    leaves, others = jax.tree.leaves(left), jax.tree.leaves(right)
    return len(leaves) == len(others) and all(leaf is other for leaf, other in zip(leaves, others, strict=True))


def _agreed_value(combination: Combination, value: Any) -> Any:
    op = Sum if combination.op is Sum else Average
    return allreduce(value, op=op, name=f"{combination.name}.value", process_set=combination.process_set)


def _agreed_value_function(combination: Combination, value_of: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose value and whose gradient are those of all ranks.

    The gradient of an allreduced value is the rank's own part (Horovod's rule), so that this one has its own.
    """

    @wraps(value_of)
    def agreed(params: Any, *args: Any, **named: Any) -> Any:
        def value_alone(params: Any) -> Any:
            return _agreed_value(combination, value_of(params, *args, **named))

        def forward(params: Any) -> Any:
            own, gradient = jax.value_and_grad(value_of)(params, *args, **named)
            return _agreed_value(combination, own), combination.combine(gradient)

        def backward(gradient: Any, cotangent: Any) -> Any:
            return (jax.tree.map(lambda slope: (cotangent * slope).astype(slope.dtype), gradient),)

        value = jax.custom_vjp(value_alone)
        value.defvjp(forward, backward)
        return value(params)

    return agreed
