# SPDX-License-Identifier: Apache-2.0
"""Queries over all jobs of a study, however many: their order, and how many are in which state.

The database orders, cuts and counts; a row per job is never read. A job is one that said anything of itself, or that
has a result.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    Select,
    and_,
    case,
    exists,
    func,
    literal,
    select,
    tuple_,
    union,
    union_all,
)

from .clock import now_unix_s
from .tables import job_facts, job_records

Position: TypeAlias = tuple[float, str]
"""Place in the order of jobs: when one was heard of last, and its id."""
DECIDED = ("adopted", "keeping_default", "ended_early")
"""States that a job says itself; another one has to be found out."""


@dataclass(frozen=True)
class Silence:
    """Rules by which a silent job counts as lost; see the domain's `jobs`.

    Attributes:
        first_result_s: Seconds that a job may be silent before its first result.
        least_s: Shortest silence after which a job with results is lost.
        gaps: Multiple of the longest gap between its results up to which a silence is a habit.
    """

    first_result_s: float
    least_s: float
    gaps: int


def newest(
    connection: Connection, study_id: str, limit: int | None, after: Position | None = None
) -> Sequence[Position]:
    """Return the jobs of a study that were heard of last, the newest first, each with that time.

    Args:
        connection: Connection to the database.
        study_id: The study.
        limit: Maximum number of jobs; None for all.
        after: The last job of the page before.
    """
    parts = []
    for own, time in ((job_facts.c, job_facts.c.heard_unix_s), (job_records.c, job_records.c.newest_unix_s)):
        part = select(own.job_id, time.label("heard")).where(own.study_id == study_id)
        if after is None and limit is not None:  # one that is among the newest is among the newest of either kind
            part = part.order_by(time.desc(), own.job_id.desc()).limit(limit)
        parts.append(select(part.subquery()))
    both = union_all(*parts).subquery().c
    heard = func.max(both.heard)
    query = select(heard, both.job_id).group_by(both.job_id).order_by(heard.desc(), both.job_id.desc()).limit(limit)
    if after is not None:
        query = query.having(tuple_(heard, both.job_id) < tuple_(literal(after[0]), literal(after[1])))
    return [(time, job_id) for time, job_id in connection.execute(query)]


def known(connection: Connection, study_id: str, job_ids: Collection[str]) -> Sequence[str]:
    """Return those of some jobs that said anything to a study, or reported to it."""
    parts = [
        select(own.job_id).where(own.study_id == study_id, own.job_id.in_(job_ids))
        for own in (job_facts.c, job_records.c)
    ]
    return connection.execute(union(*parts)).scalars().all()


def counts(
    connection: Connection, study_ids: Collection[str], silence: Silence, *, with_silent: bool
) -> Sequence[tuple[str, str, int]]:
    """Return how many jobs of each study are in which state, as (study, state, number).

    Args:
        connection: Connection to the database.
        study_ids: The studies.
        silence: Tells when a silent job is lost.
        with_silent: Whether jobs count that reported no facts of themselves and had no paired test.
    """
    now = now_unix_s(connection)
    parts = (_said(study_ids, silence, now), _told(study_ids, silence, now, with_silent=with_silent))
    return [(study_id, state, number) for part in parts for study_id, state, number in connection.execute(part)]


def _said(study_ids: Collection[str], silence: Silence, now: float) -> Select[Any]:
    """Count the jobs that said anything of themselves."""
    facts, records = job_facts.c, job_records.c
    heard = case((records.newest_unix_s > facts.heard_unix_s, records.newest_unix_s), else_=facts.heard_unix_s)
    state = case((facts.state.in_(DECIDED), facts.state), else_=_found_out(now - heard, silence))
    both = job_facts.outerjoin(job_records, _is_same_job())
    rows = select(facts.study_id, state.label("state")).select_from(both).where(facts.study_id.in_(study_ids))
    return _counted(rows)


def _told(study_ids: Collection[str], silence: Silence, now: float, *, with_silent: bool) -> Select[Any]:
    """Count the jobs that reported no facts of themselves and have results: with a paired test, or all."""
    own = job_records.c
    state = _found_out(now - own.newest_unix_s, silence).label("state")
    has_said = exists().where(_is_same_job()).correlate(job_records)
    rows = select(own.study_id, state).where(own.study_id.in_(study_ids), ~has_said)
    return _counted(rows if with_silent else rows.where(own.test_ci_low.is_not(None)))


def _counted(rows: Select[Any]) -> Select[Any]:
    own = rows.subquery().c
    return select(own.study_id, own.state, func.count()).group_by(own.study_id, own.state)


def _is_same_job() -> ColumnElement[bool]:
    facts, records = job_facts.c, job_records.c
    return and_(facts.study_id == records.study_id, facts.job_id == records.job_id)


def _found_out(idle_s: ColumnElement[float], silence: Silence) -> ColumnElement[str]:
    """Return the state of a job that said no decision: from its paired test, or from how long it has been silent."""
    own = job_records.c
    habit_s = silence.gaps * own.longest_gap_s
    limit_s = case(
        (own.job_id.is_(None), silence.first_result_s), (habit_s > silence.least_s, habit_s), else_=silence.least_s
    )
    return case(
        (own.test_ci_low > 0.0, "adopted"),
        (own.test_ci_low.is_not(None), "keeping_default"),
        (idle_s <= limit_s, "running"),
        else_="lost",
    )
