# SPDX-License-Identifier: Apache-2.0
"""Queries that read whole tables, a chunk at a time: first their keys in order, then their rows."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, case, func, select

from .clock import UnixNow
from .overview import Wanted, page_query
from .reports import COUNTED
from .rows import AgedReport, all_of
from .summaries import rank
from .summary_rows import AgedConfig
from .tables import config_summaries, reports, studies

WARMUP = "warmup"


@dataclass(frozen=True, kw_only=True)
class JobWindowsRow:
    """The phase of a job's newest result, and the shortest median step of its windows after the warm-up, or None."""

    job_id: str
    phase: str
    fastest_ms: float | None


def study_ids(connection: Connection, wanted: Wanted, order: str) -> Sequence[str]:
    """Return the ids of all studies that a list shows, in its order."""
    query = page_query(wanted, order, offset=0, limit=None).with_only_columns(studies.c.study_id)
    return connection.execute(query).scalars().all()


def config_digests(connection: Connection, study_id: str) -> Sequence[str]:
    """Return the digests of all configs that a study measured, in the order of its page."""
    own = config_summaries.c
    order = (own.is_promising.desc(), (own.adopted > 0).desc(), *rank(config_summaries))
    query = select(own.config_digest).where(own.study_id == study_id).order_by(*order)
    return connection.execute(query).scalars().all()


def these_configs(connection: Connection, study_id: str, digests: Collection[str]) -> dict[str, AgedConfig]:
    """Return some configs of a study, by digest."""
    own = config_summaries.c
    query = select(config_summaries, (UnixNow() - own.newest_unix_s).label("age_s"))
    rows = connection.execute(query.where(own.study_id == study_id, own.config_digest.in_(digests)))
    return {row.config_digest: row for row in all_of(rows, AgedConfig)}


def measured_configs(connection: Connection, study_id: str) -> Iterator[str]:
    """Yield each config of a study's results, as JSON, once."""
    query = select(reports.c.config).where(reports.c.study_id == study_id).distinct()
    yield from connection.execute(query).scalars()


def results_before(connection: Connection, study_id: str, number: int | None, limit: int) -> Sequence[AgedReport]:
    """Return results of a study, the newest first: those before a number, or the newest of all."""
    own = reports.c
    query = select(reports, (UnixNow() - own.received_unix_s).label("age_s")).where(own.study_id == study_id)
    if number is not None:
        query = query.where(own.number < number)
    return all_of(connection.execute(query.order_by(own.number.desc()).limit(limit)), AgedReport)


def windows_of_jobs(connection: Connection, study_id: str, job_ids: Collection[str]) -> dict[str, JobWindowsRow]:
    """Return the evidence of some jobs' windows, over all their results, by job; without those that have none."""
    own, newest = reports.c, reports.alias("newest").c
    is_used = own.status.in_(COUNTED) & own.valid.is_(True) & (own.phase != WARMUP)
    windows = (
        select(
            own.job_id,
            func.max(own.number).label("number"),
            func.min(case((is_used, own.median_step_ms))).label("fastest_ms"),
        )
        .where(own.study_id == study_id, own.job_id.in_(job_ids))
        .group_by(own.job_id)
        .subquery()
        .c
    )
    query = select(windows.job_id, newest.phase, windows.fastest_ms).where(newest.number == windows.number)
    return {row.job_id: row for row in all_of(connection.execute(query), JobWindowsRow)}
