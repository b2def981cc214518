# SPDX-License-Identifier: Apache-2.0
"""Queries over all jobs of a study, however many: their order, and how many are in which state.

The database orders, cuts and counts; a row per job is never read. A job is one that said anything of itself, or that
has a result.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Select,
    and_,
    case,
    exists,
    func,
    literal,
    or_,
    select,
    tuple_,
    union,
    union_all,
)

from .clock import now_unix_s
from .reports import COUNTED
from .tables import job_facts, reports

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
    facts, own = job_facts.c, reports.c
    said = select(facts.job_id, facts.heard_unix_s.label("heard")).where(facts.study_id == study_id)
    told = select(own.job_id, func.max(own.received_unix_s).label("heard")).where(own.study_id == study_id)
    told = told.group_by(own.job_id)
    if after is None and limit is not None:  # one that is among the newest is among the newest of either kind
        said = said.order_by(facts.heard_unix_s.desc(), facts.job_id.desc()).limit(limit)
        told = told.order_by(func.max(own.received_unix_s).desc(), own.job_id.desc()).limit(limit)
    both = union_all(select(said.subquery()), select(told.subquery())).subquery().c
    heard = func.max(both.heard)
    query = select(heard, both.job_id).group_by(both.job_id).order_by(heard.desc(), both.job_id.desc()).limit(limit)
    if after is not None:
        query = query.having(tuple_(heard, both.job_id) < tuple_(literal(after[0]), literal(after[1])))
    return [(time, job_id) for time, job_id in connection.execute(query)]


def known(connection: Connection, study_id: str, job_ids: Collection[str]) -> Sequence[str]:
    """Return those of some jobs that said anything to a study, or reported to it."""
    parts = [
        select(own.job_id).where(own.study_id == study_id, own.job_id.in_(job_ids)) for own in (job_facts.c, reports.c)
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
        with_silent: Whether jobs count that said nothing of themselves and had no paired test.
    """
    now = now_unix_s(connection)
    parts = [_said(study_ids, silence, now), _tested(study_ids)]
    if with_silent:
        parts.append(_silent(study_ids, silence, now))
    return [(study_id, state, number) for part in parts for study_id, state, number in connection.execute(part)]


def _said(study_ids: Collection[str], silence: Silence, now: float) -> Select[Any]:
    """Count the jobs that said anything of themselves."""
    own = job_facts.c
    bound = _test_bound(job_facts)
    state = case(
        (own.state.in_(DECIDED), own.state),
        (bound.is_(None), _open_state(job_facts, own.heard_unix_s, silence, now)),
        (bound > 0.0, "adopted"),
        else_="keeping_default",
    )
    return _grouped(job_facts, state, own.study_id.in_(study_ids))


def _tested(study_ids: Collection[str]) -> Select[Any]:
    """Count the jobs that said nothing and had a paired test."""
    own = reports.c
    is_test = (own.study_id.in_(study_ids), own.speedup.is_not(None), own.status.in_(COUNTED))
    jobs = select(own.study_id, own.job_id).where(*is_test).distinct().subquery()
    state = case((_test_bound(jobs) > 0.0, "adopted"), else_="keeping_default")
    return _grouped(jobs, state, ~_said_anything(jobs))


def _silent(study_ids: Collection[str], silence: Silence, now: float) -> Select[Any]:
    """Count the jobs that said nothing and had no paired test."""
    own = reports.c
    query = select(own.study_id, own.job_id, func.max(own.received_unix_s).label("heard"))
    jobs = query.where(own.study_id.in_(study_ids)).group_by(own.study_id, own.job_id).subquery()
    return _grouped(
        jobs, _open_state(jobs, jobs.c.heard, silence, now), ~_said_anything(jobs), _test_bound(jobs).is_(None)
    )


def _grouped(jobs: FromClause, state: ColumnElement[str], *conditions: ColumnElement[bool]) -> Select[Any]:
    rows = select(jobs.c.study_id, state.label("state")).select_from(jobs).where(*conditions).subquery().c
    return select(rows.study_id, rows.state, func.count()).group_by(rows.study_id, rows.state)


def _is_of(own: FromClause, jobs: FromClause) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    return own.c.study_id == jobs.c.study_id, own.c.job_id == jobs.c.job_id


def _said_anything(jobs: FromClause) -> ColumnElement[bool]:
    said = job_facts.alias("said")
    return exists().where(*_is_of(said, jobs)).correlate(jobs)


def _test_bound(jobs: FromClause) -> ColumnElement[float]:
    """Return the lower bound of a job's newest paired test; NULL without one."""
    own = reports.alias("tests")
    is_test = (own.c.speedup.is_not(None), own.c.status.in_(COUNTED))
    query = select(own.c.ci_low).where(*_is_of(own, jobs), *is_test).order_by(own.c.number.desc()).limit(1)
    return query.correlate(jobs).scalar_subquery()


def _open_state(jobs: FromClause, heard: ColumnElement[float], silence: Silence, now: float) -> ColumnElement[str]:
    """Return whether a job without a decision runs, or its silence is that of a lost one.

    No gap between results is longer than the time between the first and the last, so that gaps are looked at only where
    they decide. Conditions stand in such an order that most jobs cost one look.
    """
    first, last = _of_results(jobs, func.min), _of_results(jobs, func.max)
    idle = now - case((last > heard, last), else_=heard)
    may_be_habit = and_(idle <= silence.gaps * (last - first), _has_gap(jobs, idle, silence.gaps))
    is_running = case(
        (now - heard <= silence.least_s, True),
        (last.is_(None), now - heard <= silence.first_result_s),
        else_=or_(idle <= silence.least_s, may_be_habit),
    )
    return case((is_running, "running"), else_="lost")


def _of_results(jobs: FromClause, which: Callable[..., Any]) -> ColumnElement[float]:
    own = reports.alias("results")
    query = select(which(own.c.received_unix_s)).where(*_is_of(own, jobs))
    return query.correlate(jobs).scalar_subquery()


def _has_gap(jobs: FromClause, idle: ColumnElement[float], gaps: int) -> ColumnElement[bool]:
    """Tell whether a job's silence is so many times one between two of its results, or shorter."""
    own, other = reports.alias("own"), reports.alias("before")
    earlier = (other.c.study_id == own.c.study_id, other.c.job_id == own.c.job_id)
    before = select(func.max(other.c.received_unix_s)).where(*earlier, other.c.received_unix_s < own.c.received_unix_s)
    gap = own.c.received_unix_s - before.correlate(own).scalar_subquery()
    return exists().where(*_is_of(own, jobs), idle <= gaps * gap).correlate(jobs)
