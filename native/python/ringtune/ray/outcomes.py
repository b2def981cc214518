# SPDX-License-Identifier: Apache-2.0
"""Outcome of a call on all workers: every result, or the one failure behind the others.

A rank that raises makes the others fail as well, and so does one that dies. The cause is raised: the first
exception of the user's own, else the worker that was lost, else the engine's error.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from ringtune.errors import CollectiveTimeout, PeerLostError

from .errors import WorkerLostError
from .worker import WorkerFacts

GRACE_S = 1.0  # time in which ranks that fail together are heard before a failed rank is made to leave its world
END_S = 10.0  # longest wait for the ranks that still run once one has failed


@dataclass(frozen=True)
class TeamMember:
    """A worker with its rank.

    Attributes:
        actor: Ray's handle.
        facts: The worker's word on itself.
    """

    actor: Any
    facts: WorkerFacts


@dataclass(frozen=True)
class _Failure:
    rank: int
    error: Exception

    @property
    def is_loss(self) -> bool:
        return isinstance(self.error, RayActorError)

    @property
    def is_consequence(self) -> bool:
        """True if the engine says that another rank failed."""
        cause = self.error.cause if isinstance(self.error, RayTaskError) else None
        return isinstance(cause, PeerLostError | CollectiveTimeout)


class _Waiting:
    """A call that is under way on some ranks."""

    def __init__(self, references: Sequence[Any]) -> None:
        self.pending = {reference: rank for rank, reference in enumerate(references)}
        self.failures: list[_Failure] = []

    def take(self, limit_s: float | None) -> bool:
        """Wait for one more rank; return whether one came before the limit."""
        ready, _ = ray.wait(list(self.pending), num_returns=1, timeout=limit_s, fetch_local=False)
        for reference in ready:
            rank = self.pending.pop(reference)
            try:
                ray.get(reference)
            except Exception as error:  # noqa: BLE001  (a user's function may raise anything)
                self.failures.append(_Failure(rank, error))
        return bool(ready)

    def take_until(self, end_s: float) -> None:
        """Wait for the rest, until a point on the monotonic clock."""
        while self.pending and self.take(max(0.0, end_s - time.monotonic())):
            pass


def results_of(members: Sequence[TeamMember], references: Sequence[Any]) -> list[Any]:
    """Return the results of a call, by rank.

    Args:
        members: The workers, by rank.
        references: Ray's reference to each one's result.

    Raises:
        Exception: The user's own exception, as Ray gives it, of the first rank that raised one.
        WorkerLostError: If a worker's process or node ended.
        EngineError: If a collective failed and no rank says why.
    """
    waiting = _Waiting(references)
    while waiting.pending and not waiting.failures:
        waiting.take(None)
    if waiting.failures:
        _hear_the_rest(waiting, members)
        _raise_cause(waiting, members)
    return list(ray.get(list(references)))


def _hear_the_rest(waiting: _Waiting, members: Sequence[TeamMember]) -> None:
    """Wait for the other ranks; those that wait for a failed one are freed by making it leave its world."""
    start_s = time.monotonic()
    waiting.take_until(start_s + GRACE_S)
    if waiting.pending:
        for failure in waiting.failures:
            if not failure.is_loss:
                members[failure.rank].actor.leave_world.remote()
        waiting.take_until(start_s + END_S)


def _raise_cause(waiting: _Waiting, members: Sequence[TeamMember]) -> None:
    own = [failure for failure in waiting.failures if not failure.is_loss and not failure.is_consequence]
    lost = [failure for failure in waiting.failures if failure.is_loss]
    if own:
        raise own[0].error
    if lost:
        raise WorkerLostError(_loss_text(members, lost), lost[0].rank) from lost[0].error
    first = waiting.failures[0]
    silent = sorted(waiting.pending.values())
    if silent:
        where = "; ".join(f"rank {rank}, {members[rank].facts.where}" for rank in silent)
        raise WorkerLostError(
            f"{where}: no answer {END_S:g} s after rank {first.rank} failed ({first.error}); {_REMEDY}", silent[0]
        ) from first.error
    raise first.error


_REMEDY = "shutdown() works, and start() makes new workers"
_SHOWN_CHARACTERS = 200


def _loss_text(members: Sequence[TeamMember], lost: Sequence[_Failure]) -> str:
    who = "; ".join(f"rank {failure.rank}, {members[failure.rank].facts.where}" for failure in lost)
    _, _, reason = " ".join(str(lost[0].error).split()).rpartition("The actor is dead because ")
    return (
        f"{len(lost)} of {len(members)} workers ended during the call: {who}. Ray says: {reason[:_SHOWN_CHARACTERS]} "
        f"({_REMEDY})"
    )
