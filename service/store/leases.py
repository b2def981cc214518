# SPDX-License-Identifier: Apache-2.0
"""Queries on trials under a lease, and on the suggestions that wait for one."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, and_, bindparam, delete, func, insert, or_, select, update

from .keys import Key, parameters, wanted
from .rows import NewQueuedSuggestion, QueuedSuggestionRow, TrialRow, all_of, columns_of, decoded, one_of
from .tables import queued_suggestions, trials

LEASED, RELEASED, REASSIGNED, COMPLETED = "leased", "released", "reassigned", "completed"
"""The states of a trial. A lease that expired is still `leased`, until somebody else gets its config."""


def trial(connection: Connection, study_id: str, trial_id: str) -> TrialRow | None:
    """Return the trial's row."""
    query = select(trials).where(trials.c.study_id == study_id, trials.c.trial_id == trial_id)
    return one_of(connection.execute(query), TrialRow)


def trials_of(connection: Connection, keys: Collection[Key]) -> dict[Key, TrialRow]:
    """Return the rows of those trials that were asked for, by study and trial id."""
    rows = all_of(connection.execute(TRIALS_OF, parameters(keys)), TrialRow)
    return {(row.study_id, row.trial_id): row for row in rows}


def _trials_of() -> Select[Any]:
    rows, is_wanted = wanted((trials.c.study_id, trials.c.trial_id))
    return select(trials).select_from(rows.join(trials, is_wanted))


TRIALS_OF = _trials_of()


def add(connection: Connection, row: TrialRow) -> None:
    """Insert a trial."""
    connection.execute(insert(trials), columns_of([row]))


def save(connection: Connection, trial: TrialRow) -> None:
    """Replace the columns of a trial."""
    this = and_(trials.c.study_id == trial.study_id, trials.c.trial_id == trial.trial_id)
    connection.execute(update(trials).where(this).values(**vars(trial)))


def holds(trial: TrialRow, now_unix_s: float) -> bool:
    """Tell whether the lease of a trial has not ended."""
    return trial.state == LEASED and trial.expires_unix_s > now_unix_s


def complete(connection: Connection, keys: Sequence[Key]) -> None:
    """Mark trials as completed.

    Args:
        connection: Connection to the database.
        keys: Study and trial ids.
    """
    if keys:
        this = and_(trials.c.study_id == bindparam("of_study"), trials.c.trial_id == bindparam("of_trial"))
        rows = [{"of_study": study_id, "of_trial": trial_id} for study_id, trial_id in keys]
        connection.execute(update(trials).where(this).values(state=COMPLETED), rows)


@dataclass(frozen=True)
class Asker:
    """Asker for a config that was given up.

    Attributes:
        token_id: The token that asks; None where the service is open.
        space_digest: Digest of the search space in which it asks.
        designer: Name of the service's designer, whose configs go to other tokens, too.
    """

    token_id: str | None
    space_digest: str
    designer: str


def abandoned(connection: Connection, study_id: str, now_unix_s: float, asker: Asker, limit: int) -> Sequence[TrialRow]:
    """Return the trials that were released, or whose leases expired, the longest ago first.

    Another token's are among them if the designer computed them for the asked space, unless they were handed on before.
    """
    own = trials.c
    is_over = or_(own.state == RELEASED, and_(own.state == LEASED, own.expires_unix_s <= now_unix_s))
    is_designed = (own.designer == asker.designer, own.space_digest == asker.space_digest, own.is_handed_on.is_(False))
    is_free = or_(own.token_id.is_not_distinct_from(asker.token_id), and_(*is_designed))
    query = select(trials).where(own.study_id == study_id, own.state.in_((LEASED, RELEASED)), is_over, is_free)
    return all_of(connection.execute(query.order_by(own.expires_unix_s).limit(limit)), TrialRow)


def count(connection: Connection, study_id: str) -> int:
    """Return how many trials were asked for."""
    return connection.execute(select(func.count()).where(trials.c.study_id == study_id)).scalar_one()


def held(connection: Connection, study_id: str, token_id: str, now_unix_s: float) -> int:
    """Return how many leases of a study hold that a token asked for."""
    query = select(func.count()).where(trials.c.study_id == study_id, trials.c.state == LEASED)
    own = (trials.c.expires_unix_s > now_unix_s, trials.c.token_id == token_id)
    return connection.execute(query.where(*own)).scalar_one()


def asked_digests(connection: Connection, study_id: str) -> Sequence[str]:
    """Return the digests of configs that are under a lease, or that somebody gave up."""
    open_trials = (trials.c.study_id == study_id, trials.c.state.in_((LEASED, RELEASED)))
    return connection.execute(select(trials.c.config_digest).where(*open_trials)).scalars().all()


def pending(connection: Connection, study_id: str, limit: int) -> Sequence[dict[str, Any]]:
    """Return the configs that were asked for last and have no result."""
    query = select(trials.c.config).where(trials.c.study_id == study_id, trials.c.state == LEASED)
    texts = connection.execute(query.order_by(trials.c.asked_unix_s.desc()).limit(limit)).scalars()
    return [decoded(text) for text in texts]


def queued_digests(connection: Connection, study_id: str) -> Sequence[str]:
    """Return the digests of the waiting suggestions."""
    query = select(queued_suggestions.c.config_digest).where(queued_suggestions.c.study_id == study_id)
    return connection.execute(query).scalars().all()


def live(connection: Connection, now_unix_s: float) -> int:
    """Return how many leases hold."""
    query = select(func.count()).where(trials.c.state == LEASED, trials.c.expires_unix_s > now_unix_s)
    return connection.execute(query).scalar_one()


def delete_older(connection: Connection, before_unix_s: float) -> int:
    """Delete trials whose lease ended before; returns how many."""
    return connection.execute(delete(trials).where(trials.c.expires_unix_s < before_unix_s)).rowcount


def take_queued(connection: Connection, study_id: str, space_digest: str) -> QueuedSuggestionRow | None:
    """Take the oldest suggestion for a search space out of the queue; the digest is empty for the study's own."""
    oldest = select(func.min(queued_suggestions.c.number)).where(*_queue(study_id, space_digest))
    statement = delete(queued_suggestions).where(queued_suggestions.c.number == oldest.scalar_subquery())
    return one_of(connection.execute(statement.returning(queued_suggestions)), QueuedSuggestionRow)


def queued(connection: Connection, study_id: str, space_digest: str) -> int:
    """Return how many suggestions for a search space wait."""
    return connection.execute(select(func.count()).where(*_queue(study_id, space_digest))).scalar_one()


def all_queued(connection: Connection) -> int:
    """Return how many suggestions wait, of all studies."""
    return connection.execute(select(func.count()).select_from(queued_suggestions)).scalar_one()


def enqueue(connection: Connection, rows: Sequence[NewQueuedSuggestion]) -> None:
    """Append suggestions."""
    if rows:
        connection.execute(insert(queued_suggestions), columns_of(rows))


def shorten_queue(connection: Connection, study_id: str, kept: int) -> None:
    """Remove the oldest waiting suggestions of a study, of all search spaces, but for so many."""
    own = queued_suggestions.c
    beyond = select(own.number).where(own.study_id == study_id).order_by(own.number.desc()).offset(kept).limit(1)
    newest = beyond.scalar_subquery()
    connection.execute(delete(queued_suggestions).where(own.study_id == study_id, own.number <= newest))


def _queue(study_id: str, space_digest: str) -> tuple[ColumnElement[bool], ...]:
    return queued_suggestions.c.study_id == study_id, queued_suggestions.c.space_digest == space_digest
