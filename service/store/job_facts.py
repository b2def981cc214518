# SPDX-License-Identifier: Apache-2.0
"""Queries on jobs: what they say of themselves, and when they reported."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from .clock import UnixNow
from .database import upsert
from .reports import COUNTED
from .rows import AgedJobFacts, CadenceRow, JobFactsRow, ReportRow, all_of, one_of
from .tables import job_facts, reports


def get(connection: Connection, study_id: str, job_id: str) -> AgedJobFacts | None:
    """Return what a job reported of itself."""
    query = select(job_facts, *_ages()).where(job_facts.c.study_id == study_id, job_facts.c.job_id == job_id)
    return one_of(connection.execute(query), AgedJobFacts)


def put(connection: Connection, row: JobFactsRow) -> None:
    """Insert or replace what a job says of itself."""
    upsert(connection, job_facts, [row])


def of_studies(connection: Connection, study_ids: Collection[str]) -> Sequence[AgedJobFacts]:
    """Return what the jobs of studies reported of themselves, those that were heard of last first."""
    query = select(job_facts, *_ages()).where(job_facts.c.study_id.in_(study_ids))
    return all_of(connection.execute(query.order_by(job_facts.c.heard_unix_s.desc(), job_facts.c.job_id)), AgedJobFacts)


def all_of_study(connection: Connection, study_id: str) -> Sequence[JobFactsRow]:
    """Return the rows of a study, by job."""
    query = select(job_facts).where(job_facts.c.study_id == study_id).order_by(job_facts.c.job_id)
    return all_of(connection.execute(query), JobFactsRow)


def cadences(
    connection: Connection, study_ids: Collection[str], job_ids: Collection[str] | None = None
) -> Sequence[CadenceRow]:
    """Return how jobs report, those with the newest result first.

    Args:
        connection: Connection to the database.
        study_ids: Studies of the jobs.
        job_ids: The jobs; None takes all.
    """
    own = reports.c
    job = (own.study_id, own.job_id)
    before = func.lag(own.received_unix_s).over(partition_by=job, order_by=own.number)
    gap = (own.received_unix_s - before).label("gap_s")
    wanted = select(*job, own.received_unix_s, gap).where(own.study_id.in_(study_ids))
    rows = (wanted if job_ids is None else wanted.where(own.job_id.in_(job_ids))).subquery().c
    newest = func.max(rows.received_unix_s)
    query = (
        select(
            rows.study_id,
            rows.job_id,
            func.count().label("results"),
            (UnixNow() - func.min(rows.received_unix_s)).label("age_s"),
            (UnixNow() - newest).label("idle_s"),
            func.coalesce(func.max(rows.gap_s), 0.0).label("longest_gap_s"),
        )
        .group_by(rows.study_id, rows.job_id)
        .order_by(newest.desc(), rows.job_id)
    )
    return all_of(connection.execute(query), CadenceRow)


def tests(connection: Connection, study_ids: Collection[str]) -> Sequence[ReportRow]:
    """Return the newest paired test of each job that has one which counts."""
    own = reports.c
    is_test = (own.study_id.in_(study_ids), own.speedup.is_not(None), own.status.in_(COUNTED))
    newest = select(func.max(own.number)).where(*is_test).group_by(own.study_id, own.job_id)
    return all_of(connection.execute(select(reports).where(own.number.in_(newest))), ReportRow)


def _ages() -> tuple[Any, ...]:
    return (
        (UnixNow() - job_facts.c.begun_unix_s).label("age_s"),
        (UnixNow() - job_facts.c.heard_unix_s).label("idle_s"),
    )
