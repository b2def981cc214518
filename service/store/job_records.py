# SPDX-License-Identifier: Apache-2.0
"""Queries on the row that is kept per job of a study: number and time of results, newest paired test, baseline."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, func, select

from .clock import UnixNow
from .database import upsert, whole_sum
from .keys import Key, parameters, wanted
from .rows import all_of
from .tables import job_records


@dataclass(kw_only=True)
class JobRecord:
    """A row of `job_records`. It is not frozen: results are added in place.

    Attributes:
        study_id: The study.
        job_id: The job.
        results: Number of its results, those that do not count included.
        trials: Number of those that count.
        first_unix_s: When the first came.
        newest_unix_s: When the newest came.
        longest_gap_s: Longest time between two.
        used_unix_s: When the newest came that counts.
        test_ci_low: Lower bound of the newest paired test that counts.
        baseline_digest: Digest of its own baseline.
        baseline_log_step: Mean ln(step time in ms) under its own baseline.
    """

    study_id: str
    job_id: str
    first_unix_s: float
    newest_unix_s: float
    results: int = 0
    trials: int = 0
    longest_gap_s: float = 0.0
    used_unix_s: float | None = None
    test_ci_low: float | None = None
    baseline_digest: str | None = None
    baseline_log_step: float | None = None


@dataclass(kw_only=True)
class AgedJobRecord(JobRecord):
    """A row of `job_records`, with the seconds since the first and the newest result."""

    age_s: float
    idle_s: float


@dataclass(frozen=True, kw_only=True)
class BaselineJobs:
    """The jobs of a study that have one baseline and results that count.

    Attributes:
        study_id: The study.
        baseline_digest: Digest of the baseline; None for jobs without one.
        jobs: Their number.
        trials: Number of their results that count.
        age_s: Seconds since the newest of these.
        timed_jobs: Number of jobs with a step time under the baseline.
        mean_log_step: Mean ln(step time in ms) of those, each counted once.
    """

    study_id: str
    baseline_digest: str | None
    jobs: int
    trials: int
    age_s: float
    timed_jobs: int
    mean_log_step: float | None


def of_jobs(connection: Connection, keys: Collection[Key]) -> Sequence[JobRecord]:
    """Return the rows of jobs, by study and job."""
    return all_of(connection.execute(OF_JOBS, parameters(keys)), JobRecord)


def _of_jobs() -> Select[Any]:
    rows, is_wanted = wanted((job_records.c.study_id, job_records.c.job_id))
    return select(job_records).select_from(rows.join(job_records, is_wanted))


OF_JOBS = _of_jobs()


def put(connection: Connection, rows: Sequence[JobRecord]) -> None:
    """Insert or replace rows."""
    upsert(connection, job_records, rows)


def aged(connection: Connection, study_id: str, job_ids: Collection[str]) -> dict[str, AgedJobRecord]:
    """Return the rows of some jobs of a study, by job; without those that have no result."""
    own = job_records.c
    age_s, idle_s = (UnixNow() - own.first_unix_s).label("age_s"), (UnixNow() - own.newest_unix_s).label("idle_s")
    query = select(job_records, age_s, idle_s).where(own.study_id == study_id, own.job_id.in_(job_ids))
    return {row.job_id: row for row in all_of(connection.execute(query), AgedJobRecord)}


def by_baseline(connection: Connection, study_ids: Collection[str]) -> Sequence[BaselineJobs]:
    """Return the sums over the jobs of studies that have results that count, by study and baseline."""
    own = job_records.c
    query = select(
        own.study_id,
        own.baseline_digest,
        func.count().label("jobs"),
        whole_sum(own.trials).label("trials"),
        (UnixNow() - func.max(own.used_unix_s)).label("age_s"),
        func.count(own.baseline_log_step).label("timed_jobs"),
        func.avg(own.baseline_log_step).label("mean_log_step"),
    )
    query = query.where(own.study_id.in_(study_ids), own.trials > 0).group_by(own.study_id, own.baseline_digest)
    return all_of(connection.execute(query), BaselineJobs)
