# SPDX-License-Identifier: Apache-2.0
"""Calls out of compiled functions: the asynchronous ones into the engine, where they were built, and those to Python.

On CPUs an asynchronous call hands its arrays to the engine as soon as XLA has computed them and returns at once, so
that communication overlaps with the rest of the step and no order is imposed. On CUDA it returns once the results are
enqueued, and XLA's stream waits for them. A call to Python waits for its result; XLA runs such calls in the order of
the program, on every rank alike.
"""

import ctypes
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.extend
import numpy as np
from jax.experimental import io_callback

from ringtune.errors import ConfigError
from ringtune.graph_operations.jax_op import CALLS, HANDLERS, HOW_TO_BUILD, jax_library
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.session import SESSION
from ringtune.session.submissions import world_of
from ringtune.system.console import Console
from ringtune.world.world import World

from .collective import Collective

COLLECTIVE, MARK_STEP, NOTHING = CALLS

_SMALL_CALLS = 8  # most calls that XLA's ThunkExecutor runs in turn: its `execute_sequential_num_thunks_threshold`
_SMALL_BYTES = 512  # largest buffer of calls that it runs in turn: its `execute_sequential_buffer_threshold`


class CompiledCalls(NamedTuple):
    """The calls of this environment.

    Attributes:
        library: The library; None where it was not built or cannot be used.
        complaint: Reason why a library that was built cannot be used; empty where there is none.
    """

    library: ctypes.CDLL | None
    complaint: str = ""


@cache
def compiled_calls() -> CompiledCalls:
    """Return the calls that were built for this environment; looks once."""
    try:
        library = jax_library(jax).find()
    except ConfigError as error:
        return CompiledCalls(None, f"collectives go through Python: {error}; {HOW_TO_BUILD}")
    if library is None:
        return CompiledCalls(None)
    for platform, handlers in HANDLERS.items():
        for name, function in handlers.items():
            jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, function)), platform=platform)
    return CompiledCalls(library)


class Doors:
    """The engines of the process sets that compiled functions name, as the library knows them: by numbers."""

    def __init__(self, library: ctypes.CDLL | None) -> None:
        """Follow the worlds of this process.

        Args:
            library: The library of asynchronous calls, if there is one.
        """
        self._library = library
        self._sets = [global_process_set]
        SESSION.observe(self._follow)

    def number_of(self, process_set: ProcessSet) -> int:
        """Return the number by which compiled functions name a process set, in this world and in later ones."""
        if process_set not in self._sets:
            self._sets.append(process_set)
            self._open(len(self._sets) - 1)
        return self._sets.index(process_set)

    def _follow(self, world: World | None) -> None:
        if world is None:  # compiled functions still run; their failure is shown where their results are needed
            with suppress(jax.errors.JaxRuntimeError):
                jax.effects_barrier()
        for number in range(len(self._sets)):
            self._open(number, is_leaving=world is None)

    def _open(self, number: int, *, is_leaving: bool = False) -> None:
        if self._library is None:
            return
        process_set = self._sets[number]
        is_open = not is_leaving and bool(process_set.included())
        door = process_set.world.engine.submission_door() if is_open else None
        complaint = (
            "ringtune is not initialized; call ringtune.jax.init() before the function runs"
            if process_set is global_process_set
            else f"the process set of ranks {process_set.ranks} is not part of the running job; pass it to init() or "
            "add_process_set() before the function runs"
        )
        self._library.ringtune_jax_open(number, door, complaint.encode())


@cache
def doors() -> Doors:
    """Return the doors of this process."""
    return Doors(compiled_calls().library)


def are_asynchronous() -> bool:
    """Return whether functions that are compiled now can call the engine without Python."""
    doors()
    calls = compiled_calls()
    if calls.complaint:
        _warn_once(SESSION.require().console, calls.complaint)
    return calls.library is not None and platform_of_backend() in HANDLERS


def platform_of_backend() -> str:
    """Return XLA's name for the platform of JAX's default backend."""
    backend = jax.extend.backend.get_backend()
    is_cuda = backend.platform == "gpu" and "cuda" in backend.platform_version.lower()
    return "CUDA" if is_cuda else str(backend.platform)


def lowered(collective: Collective, dtypes: Sequence[int]) -> Any:
    """Return the rule that lowers a collective to one asynchronous call.

    Args:
        collective: The operation, under the names of this call.
        dtypes: The engine's numbers for the dtypes of its arrays.
    """
    is_broadcast = collective.kind is collective.kind.BROADCAST
    rule = jax.ffi.ffi_lowering(
        COLLECTIVE,
        has_side_effect=True,  # every rank runs it, although nobody may need this rank's result
        operand_output_aliases={number: number for number in range(len(dtypes))} if collective.keeps_shapes else {},
    )
    return partial(
        rule,
        kind=np.int32(collective.kind),
        door=np.int32(doors().number_of(collective.process_set)),
        names="\n".join(collective.names),
        group=collective.group,
        dtypes=np.array(dtypes, np.int32),
        reduction=np.int32(collective.reduction.op),
        prescale=np.float64(collective.reduction.prescale),
        postscale=np.float64(collective.reduction.postscale),
        is_gradient=np.int32(collective.is_gradient),
        root_rank=np.int32(collective.process_set.rank_of(collective.root_rank) if is_broadcast else 0),
        ranks=np.int32(len(collective.rows_of[0]) if collective.rows_of else 0),
        rows_for=np.array(collective.rows_for, np.int64).ravel(),
        rows_of=np.array(collective.rows_of, np.int64).ravel(),
    )


def let_calls_overlap() -> None:
    """Keep XLA from running a small function's calls one after the other, each when the one before has ended.

    Ranks that compile different functions would wait for each other for ever: each for a collective that the other
    comes to later. Empty calls make the function larger than those that XLA runs in turn. On CUDA it runs all
    calls in turn, and there is no remedy.
    """
    if platform_of_backend() != "cpu":
        return
    for number in range(_SMALL_CALLS):
        do_nothing(_SMALL_BYTES + 1 if number == 0 else 0)


def do_nothing(size: int = 0) -> None:
    """Make an empty call part of a function that is traced; it has a result of some bytes, or none."""
    room = [jax.ShapeDtypeStruct((size,), np.uint8)] if size else []
    jax.ffi.ffi_call(NOTHING, room, has_side_effect=True)()


def mark_step_after(results: Sequence[Any], process_set: ProcessSet) -> None:
    """Mark the end of the step for the tuner once all results are there, by a call of a compiled function."""
    mark = jax.custom_batching.custom_vmap(lambda *arrays: _mark_step(arrays, process_set))
    mark.def_vmap(lambda _, __, *arrays: (_mark_step(arrays, process_set), []))
    mark(*(jax.lax.stop_gradient(result) for result in results))


def _mark_step(results: Sequence[Any], process_set: ProcessSet) -> list[Any]:
    if are_asynchronous():
        door = np.int32(doors().number_of(process_set))
        jax.ffi.ffi_call(MARK_STEP, (), has_side_effect=True)(*results, door=door)
    else:
        call_python(partial(_mark_on_host, process_set), (), *results)
    return []


def _mark_on_host(process_set: ProcessSet, *_: Any) -> tuple[()]:
    world_of(process_set).engine.mark_step()
    return ()


def call_python(function: Callable[..., Any], results: Any, *arrays: Any) -> Any:
    """Return the results of a Python function, run on arrays when the compiled function comes to it.

    Args:
        function: Gets the arrays as numpy's, returns those that `results` describes. It may wait for other ranks.
        results: Shapes and dtypes of the results, as a pytree.
        arrays: The traced arrays.
    """
    doors()

    def run(*values: Any) -> Any:
        return function(*(np.asarray(value) for value in values))

    return io_callback(run, results, *arrays, ordered=True)


def is_traced(tree: Any) -> bool:
    """Return whether a pytree holds arrays of a function that is being compiled, or transformed."""
    return any(isinstance(leaf, jax.core.Tracer) for leaf in jax.tree_util.tree_leaves(tree))


@cache
def _warn_once(console: Console, text: str) -> None:
    console.warning(text)
