# SPDX-License-Identifier: Apache-2.0
"""Collectives of compiled functions on arrays of numpy: the way through Python."""

from typing import Any

from ringtune.arrays.movement import submit_allgather, submit_alltoall, submit_broadcast
from ringtune.arrays.reductions import submit_allreduce, submit_reducescatter
from ringtune.errors import MismatchError
from ringtune.session.submissions import NO_GROUP, Group, world_of
from ringtune.world.handles import Handle, start_all, wait_for_all
from ringtune.world.world import World

from .collective import Collective, Kind


def on_host(collective: Collective, *values: Any) -> list[Any]:
    """Return the results of a collective, in the order of its arrays.

    Args:
        collective: The operation; it fits the arrays.
        values: The arrays.

    Raises:
        MismatchError: If other ranks have other rows than the compiled function has room for.
        EngineError: If the world is lost.
    """
    world = world_of(collective.process_set)
    group = Group(collective.group, len(values)) if len(values) > 1 else NO_GROUP
    results = wait_for_all(
        start_all(_start(world, collective, position, value, group) for position, value in enumerate(values))
    )
    if collective.kind not in (Kind.ALLGATHER, Kind.ALLTOALL):
        return results
    return [_checked_rows(collective, position, *gathered) for position, gathered in enumerate(results)]


def _start(world: World, collective: Collective, position: int, value: Any, group: Group) -> Handle:
    name = collective.names[position]
    if collective.kind is Kind.ALLREDUCE:
        is_gradient = collective.is_gradient
        return submit_allreduce(world, name, value, collective.reduction, group=group, is_gradient=is_gradient)
    if collective.kind is Kind.REDUCESCATTER:
        return submit_reducescatter(world, name, value, collective.reduction, group=group)
    if collective.kind is Kind.BROADCAST:
        return submit_broadcast(world, name, value, collective.process_set.rank_of(collective.root_rank))
    if collective.kind is Kind.ALLTOALL:
        return submit_alltoall(world, name, value, collective.rows_for[position])
    return submit_allgather(world, name, value, group=group)


def _checked_rows(collective: Collective, position: int, rows: Any, counts: list[int]) -> Any:
    expected = list(collective.rows_of[position])
    if counts != expected:
        raise MismatchError(
            f"'{collective.names[position]}' has {counts} rows from the ranks, where this rank's function has the "
            f"shape for {expected}; pad them to equal numbers, or call the collective outside"
        )
    return rows
