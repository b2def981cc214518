# SPDX-License-Identifier: Apache-2.0
"""Waiting: for one operation, for every rank, for the ranks that still have data. Horovod's names and meanings."""

from typing import Any

from ringtune import _engine
from ringtune.errors import WrongTypeError
from ringtune.session.process_sets import ProcessSet, global_process_set
from ringtune.session.submissions import start_join, world_of
from ringtune.world.handles import Handle


def poll(handle: Handle) -> bool:
    """Return whether `synchronize` would return, or raise, at once."""
    return _checked(handle).poll()


def synchronize(handle: Handle) -> Any:
    """Wait for an asynchronous operation and return its result.

    Args:
        handle: Handle of an operation that has not been synchronized yet.

    Raises:
        ConfigError: If there is no such handle.
        MismatchError: If ranks submitted different shapes, dtypes or operations.
        EngineError: If the world is lost.
    """
    return _checked(handle).wait()


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Return when every rank of the set has called it; raises `EngineError` if the world is lost."""
    world_of(process_set).engine.barrier()


def join(device: int = -1) -> int:
    """Announce that this rank has no more data, and wait until every rank has done so.

    Meanwhile this rank takes part in the others' allreduces with zeros; Min, Max and Product fail then, and so does
    any other operation.

    Args:
        device: Horovod's; without effect, for zeros need no device.

    Returns:
        The rank that joined last, the same on all ranks.

    Raises:
        EngineError: If the world is lost.
    """
    del device
    last: int = start_join(world_of(global_process_set), _last_to_join).wait()
    return last


def _last_to_join(result: _engine.Result | None) -> int:
    if result is None:
        raise AssertionError("a join has a result")
    return result.rows[0]


def _checked(handle: object) -> Handle:
    if not isinstance(handle, Handle):
        raise WrongTypeError(
            f"there is no operation with handle {handle!r}; pass what an asynchronous operation returned"
        )
    return handle
