# SPDX-License-Identifier: Apache-2.0
"""The primitive of a collective: traced with its own names, and lowered to a call out of the compiled function.

One name may be called several times in a compiled function: an optimizer of Optax steps many models. Such calls are in
flight at once, so each needs a name of its own. The name is made where JAX lowers the function: the n-th call with a
name gets the suffix `#n`, in the order of the program, on every rank that compiles this function. The first keeps its
name. A call in a loop is lowered once and runs once at a time.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cache, lru_cache, partial
from typing import Any, NoReturn

import jax
from jax.extend.core import Primitive
from jax.interpreters import mlir

from ringtune.errors import ConfigError
from ringtune.session.submissions import world_of

from . import calls
from .collective import Collective
from .host import on_host

_COUNTS = "ringtune: lowered calls by name"  # key beside those of JAX, which are tuples
_EAGER_FUNCTIONS = 1024  # compiled functions of collectives that are kept; those of a gradient outside of `jit`
_WHAT_TO_DO = (
    "a collective needs a function of one device: compile the part on several devices without it, and call it on the "
    "results, outside (docs/howto/jax.md, a rank with several devices)"
)

collective_p = Primitive("ringtune_collective")
collective_p.multiple_results = True


def call(arrays: Sequence[Any], dtypes: Sequence[int], collective: Collective) -> list[Any]:
    """Return the results of a collective of traced arrays.

    Args:
        arrays: The traced arrays; at least one.
        dtypes: The engine's numbers for their dtypes.
        collective: The operation; it fits the arrays.

    Raises:
        ConfigError: If a name has a line end, or the arrays or the function span several devices.
    """
    for name in collective.names:
        if "\n" in name:
            raise ConfigError(f"the name {name!r} is not possible; leave the line end out")
    mesh = jax.sharding.get_abstract_mesh()
    if mesh.manual_axes and mesh.size > 1:
        _refuse(collective, f"inside of shard_map over a mesh of {mesh.size} devices")
    for array in arrays:
        if (devices := jax.typeof(array).sharding.mesh.size) > 1:
            _refuse(collective, f"of an array on a mesh of {devices} devices")
    is_asynchronous = calls.are_asynchronous()
    if is_asynchronous:
        calls.let_calls_overlap()
    found: list[Any] = collective_p.bind(
        *arrays, collective=collective, dtypes=tuple(dtypes), is_asynchronous=is_asynchronous
    )
    return found


@lru_cache(_EAGER_FUNCTIONS)
def _compiled(params: frozenset[tuple[str, Any]]) -> Any:
    return jax.jit(partial(collective_p.bind, **dict(params)))


def _run(*arrays: Any, **params: Any) -> Any:
    return _compiled(frozenset(params.items()))(*arrays)


def _results(*arrays: Any, collective: Collective, dtypes: tuple[int, ...], is_asynchronous: bool) -> Any:
    del dtypes
    shapes = [collective.result_of(position, array) for position, array in enumerate(arrays)]
    return [jax.core.ShapedArray(each.shape, each.dtype) for each in shapes], _effects(is_asynchronous)


@cache
def _effects(is_asynchronous: bool) -> Any:
    """Return the effects of JAX's own call that a collective becomes: JAX keeps it, and refuses where it would."""
    own = calls.do_nothing if is_asynchronous else partial(calls.call_python, tuple, ())
    return jax.make_jaxpr(own)().effects


def _lower(
    context: mlir.LoweringRuleContext,
    *operands: Any,
    collective: Collective,
    dtypes: tuple[int, ...],
    is_asynchronous: bool,
) -> Any:
    """Return the operations of one call, under a name that no other call of the module has."""
    axes = context.module_context.axis_context  # one of three kinds, each with its number of devices elsewhere
    devices = int(getattr(axes, "num_devices", None) or getattr(getattr(axes, "mesh", None), "size", None) or 1)
    if devices > 1:
        _refuse(collective, f"in a function that is compiled for {devices} devices")
    own = _numbered(context.module_context, collective)
    if own.is_gradient and own is not collective:
        gradients = world_of(own.process_set).gradient_set
        for name, array in zip(own.names, context.avals_in, strict=True):
            gradients.add(name, str(array.dtype), tuple(array.shape))
    if is_asynchronous:
        return calls.lowered(own, dtypes)(context, *operands)
    results = [jax.ShapeDtypeStruct(array.shape, array.dtype) for array in context.avals_out]
    return mlir.lower_fun(partial(calls.call_python, partial(on_host, own), results))(context, *operands)


collective_p.def_impl(_run)
collective_p.def_effectful_abstract_eval(_results)
mlir.register_lowering(collective_p, _lower, cacheable=False)


def _refuse(collective: Collective, place: str) -> NoReturn:
    raise ConfigError(f"{collective.title} '{collective.names[0]}' {place} is not possible: {_WHAT_TO_DO}")


class _Unshared(dict[Any, Any]):
    """Lowered functions of a module by their source, without those that hold a collective.

    JAX lowers a function once and calls it several times. Each call of a collective must be lowered apart.
    """

    def __setitem__(self, key: Any, value: Any) -> None:
        """Keep a lowered function, unless one of its effects is a collective's."""
        parts = key if isinstance(key, tuple) else (key,)
        effects = {effect for part in parts for effect in getattr(part, "effects", ())}
        if effects.isdisjoint(_effects(True) | _effects(False)):
            super().__setitem__(key, value)


def _numbered(module: mlir.ModuleContext, collective: Collective) -> Collective:
    """Return the collective under the names of this call, which is its next in the module."""
    for kept in ("cached_primitive_lowerings", "lowering_cache"):
        if not isinstance(getattr(module, kept), _Unshared):
            setattr(module, kept, _Unshared(getattr(module, kept)))
    counts = module.cached_primitive_lowerings.setdefault(_COUNTS, Counter())
    keys = [(collective.process_set, name) for name in collective.names]
    number = 1 + max(counts[key] for key in keys)
    counts |= dict.fromkeys(keys, number)
    if number == 1:
        return collective
    names = tuple(f"{name}#{number}" for name in collective.names)
    return collective._replace(names=names, group=collective.group and f"{collective.group}#{number}")
