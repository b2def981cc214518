# SPDX-License-Identifier: Apache-2.0
"""Queries on jobs: their facts, and their paired tests. None reads more jobs than it returns."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import Connection, func, select

from .clock import UnixNow
from .database import upsert
from .reports import COUNTED
from .rows import AgedJobFacts, JobFactsRow, ReportRow, all_of, one_of
from .tables import job_facts, reports


def get(connection: Connection, study_id: str, job_id: str) -> AgedJobFacts | None:
    """Return a job's facts as it reported them."""
    query = select(job_facts, *_ages()).where(job_facts.c.study_id == study_id, job_facts.c.job_id == job_id)
    return one_of(connection.execute(query), AgedJobFacts)


def put(connection: Connection, row: JobFactsRow) -> None:
    """Insert or replace a job's facts."""
    upsert(connection, job_facts, [row])


def of_jobs(connection: Connection, study_id: str, job_ids: Collection[str]) -> Sequence[AgedJobFacts]:
    """Return the facts that some jobs of a study reported of themselves."""
    query = select(job_facts, *_ages()).where(job_facts.c.study_id == study_id, job_facts.c.job_id.in_(job_ids))
    return all_of(connection.execute(query), AgedJobFacts)


def all_of_study(connection: Connection, study_id: str) -> Sequence[JobFactsRow]:
    """Return the rows of a study, by job."""
    query = select(job_facts).where(job_facts.c.study_id == study_id).order_by(job_facts.c.job_id)
    return all_of(connection.execute(query), JobFactsRow)


def tests(connection: Connection, study_id: str, job_ids: Collection[str]) -> Sequence[ReportRow]:
    """Return the newest paired test of each of some jobs that has one which counts."""
    own = reports.c
    is_test = (own.study_id == study_id, own.job_id.in_(job_ids), own.speedup.is_not(None), own.status.in_(COUNTED))
    newest = select(func.max(own.number)).where(*is_test).group_by(own.study_id, own.job_id)
    return all_of(connection.execute(select(reports).where(own.number.in_(newest))), ReportRow)


def _ages() -> tuple[Any, ...]:
    return (
        (UnixNow() - job_facts.c.begun_unix_s).label("age_s"),
        (UnixNow() - job_facts.c.heard_unix_s).label("idle_s"),
    )
