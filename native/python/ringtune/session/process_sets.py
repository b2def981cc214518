# SPDX-License-Identifier: Apache-2.0
"""Process sets as front ends offer them, with Horovod's names and meanings; the sets of the one world of `SESSION`."""

from collections.abc import Iterable

from ringtune.session.session import SESSION
from ringtune.world.set_registry import ProcessSet

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "process_set_of", "remove_process_set"]

global_process_set = SESSION.global_process_set
"""The set of all ranks; usable from `init()` to `shutdown()`."""


def add_process_set(process_set: ProcessSet | Iterable[int]) -> ProcessSet:
    """Add a process set while the job runs; every rank calls it, also those that are not in the set.

    Args:
        process_set: The set, or its global ranks; the same on all ranks.

    Returns:
        The set.

    Raises:
        ConfigError: If ranks name different sets, the set exists, is empty or names a rank that is none.
        EngineError: If the world is lost.
    """
    if not isinstance(process_set, ProcessSet):
        process_set = ProcessSet(process_set)
    return SESSION.add_set(process_set)


def remove_process_set(process_set: ProcessSet) -> bool:
    """Remove a process set; every rank calls it. The object forgets its ranks, and operations in flight fail.

    Returns:
        Whether it was removed; the global set cannot be.

    Raises:
        ConfigError: If ranks name different sets, or the set was not added.
        EngineError: If the world is lost.
    """
    return SESSION.remove_set(process_set)


def process_set_of(process_set_id: int) -> ProcessSet | None:
    """Return the process set of the running job that has a number; None where there is none."""
    return SESSION.require_sets().find(process_set_id)
