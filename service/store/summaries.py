# SPDX-License-Identifier: Apache-2.0
"""Queries on what is derived from the ledger: per job and config, and per config over all jobs."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, FromClause, Select, UnaryExpression, bindparam, delete, func, select

from .clock import UnixNow
from .database import upsert
from .keys import Key, parameters, wanted
from .rows import Row
from .tables import config_summaries, job_summaries, studies

BASELINE = ""
"""The config digest of the row that has a job's own baseline."""


def of_jobs(connection: Connection, keys: Collection[Key]) -> Sequence[Row]:
    """Return the rows per job and config, by study, job and config."""
    return connection.execute(OF_JOBS, parameters(keys)).mappings().all()


def _of_jobs() -> Select[Any]:
    rows, is_wanted = wanted((job_summaries.c.study_id, job_summaries.c.job_id, job_summaries.c.config_digest))
    return select(job_summaries).select_from(rows.join(job_summaries, is_wanted))


OF_JOBS = _of_jobs()


def config_counts(connection: Connection, keys: Collection[Key]) -> dict[Key, int]:
    """Return how many configs jobs have rows for, by study and job; without those that have none."""
    rows = connection.execute(CONFIG_COUNTS, parameters(keys))
    return {(study_id, job_id): int(count) for study_id, job_id, count in rows}


def _config_counts() -> Select[Any]:
    own = job_summaries.c
    rows, is_wanted = wanted((own.study_id, own.job_id))
    query = select(own.study_id, own.job_id, func.count()).select_from(rows.join(job_summaries, is_wanted))
    return query.where(own.config_digest != BASELINE).group_by(own.study_id, own.job_id)


CONFIG_COUNTS = _config_counts()


def configs_of_jobs(connection: Connection, keys: Collection[Key]) -> set[Key]:
    """Return the configs that jobs have rows for, as study and config, of jobs by study and job."""
    return {(study_id, digest) for study_id, digest in connection.execute(CONFIGS_OF_JOBS, parameters(keys))}


def _configs_of_jobs() -> Select[Any]:
    own = job_summaries.c
    rows, is_wanted = wanted((own.study_id, own.job_id))
    query = select(own.study_id, own.config_digest).distinct().select_from(rows.join(job_summaries, is_wanted))
    return query.where(own.config_digest != BASELINE)


CONFIGS_OF_JOBS = _configs_of_jobs()


def compared(connection: Connection, keys: Collection[Key], jobs: int) -> Sequence[Row]:
    """Return for each of some configs the rows of its newest jobs, each beside the job's baseline.

    Rows are sorted by study and config, then by baseline, the newest first. They have the columns of `job_summaries`;
    `own_baseline` (JSON), `baseline_samples` and `baseline_log_step_e9`, which are None without a baseline; the study's
    `target`; and of all jobs with the same baseline together `all_trials` and `all_jobs`.

    Args:
        connection: Where.
        keys: Studies and configs.
        jobs: How many of the newest per config and baseline.
    """
    return connection.execute(COMPARED, {**parameters(keys), "jobs": jobs}).mappings().all()


def _compared() -> Select[Any]:
    own, baseline = job_summaries, job_summaries.alias("of_baseline")
    rows, is_wanted = wanted((own.c.study_id, own.c.config_digest))
    is_baseline = (
        (baseline.c.study_id == own.c.study_id)
        & (baseline.c.job_id == own.c.job_id)
        & (baseline.c.config_digest == BASELINE)
    )
    alike = (own.c.study_id, own.c.config_digest, baseline.c.baseline)
    newest_first = (own.c.newest_unix_s.desc(), own.c.job_id)
    ranked = (
        select(
            own,
            baseline.c.baseline.label("own_baseline"),
            baseline.c.samples.label("baseline_samples"),
            baseline.c.log_step_e9.label("baseline_log_step_e9"),
            func.row_number().over(partition_by=alike, order_by=newest_first).label("place"),
            func.sum(own.c.trials).over(partition_by=alike).label("all_trials"),
            func.count().over(partition_by=alike).label("all_jobs"),
        )
        .select_from(rows.join(own, is_wanted).outerjoin(baseline, is_baseline))
        .subquery()
    )
    return (
        select(ranked, studies.c.target)
        .select_from(ranked.join(studies, studies.c.study_id == ranked.c.study_id))
        .where(ranked.c.place <= bindparam("jobs", type_=BigInteger()))
        .order_by(ranked.c.study_id, ranked.c.config_digest, ranked.c.own_baseline, ranked.c.place)
    )


COMPARED = _compared()


def put_jobs(connection: Connection, rows: Sequence[Row]) -> None:
    """Insert or replace rows per job and config."""
    upsert(connection, job_summaries, rows)


def put_configs(connection: Connection, rows: Sequence[Row]) -> None:
    """Insert or replace rows per config."""
    upsert(connection, config_summaries, rows)


def configs_of(connection: Connection, keys: Collection[Key]) -> dict[Key, str]:
    """Return the configs (JSON) that have a summary, by study and digest."""
    rows = connection.execute(CONFIGS_OF, parameters(keys))
    return {(study_id, digest): config for study_id, digest, config in rows}


def _configs_of() -> Select[Any]:
    own = config_summaries.c
    rows, is_wanted = wanted((own.study_id, own.config_digest))
    return select(own.study_id, own.config_digest, own.config).select_from(rows.join(config_summaries, is_wanted))


CONFIGS_OF = _configs_of()


def clear(connection: Connection, study_id: str) -> None:
    """Remove what is derived for a study."""
    for table in (job_summaries, config_summaries):
        connection.execute(delete(table).where(table.c.study_id == study_id))


def best_of_key(connection: Connection, key_digest: str) -> Row | None:
    """Return the study's row and, with it, its most promising config.

    Confirmed ones come first, then those that were compared with the default, then the best lower bound.

    The columns of the config are None where none is promising. `now_unix_s` is the database's time.
    """
    return connection.execute(BEST_OF_KEY, {"key_digest": key_digest}).mappings().one_or_none()


def _best_of_key() -> Select[Any]:
    """Return the query behind `best_of_key`: three look-ups in indexes, made once because building it takes longer."""
    best, promising = config_summaries, config_summaries.alias("promising")
    digest = (
        select(promising.c.config_digest)
        .where(promising.c.study_id == studies.c.study_id, promising.c.is_promising.is_(True))
        .order_by(*_rank(promising))
        .limit(1)
        .correlate(studies)
        .scalar_subquery()
    )
    is_best = (best.c.study_id == studies.c.study_id) & (best.c.config_digest == digest)
    columns = (studies.c.study_id, *(column for column in best.c if column.name != "study_id"))
    return (
        select(*columns, UnixNow().label("now_unix_s"))
        .select_from(studies.outerjoin(best, is_best))
        .where(studies.c.key_digest == bindparam("key_digest"))
    )


def _rank(table: FromClause) -> tuple[UnaryExpression[Any], ...]:
    return tuple(table.c[name].desc() for name in ("is_confirmed", "is_over_default", "ci_low"))


BEST_OF_KEY = _best_of_key()


def promising_of(connection: Connection, study_id: str, limit: int) -> Sequence[Row]:
    """Return a study's most promising configs, as `best_of_key` ranks them."""
    query = (
        select(config_summaries)
        .where(config_summaries.c.study_id == study_id, config_summaries.c.is_promising.is_(True))
        .order_by(*_rank(config_summaries))
        .limit(limit)
    )
    return connection.execute(query).mappings().all()


def baselines_of(connection: Connection, study_id: str, limit: int) -> Sequence[Row]:
    """Return the baseline rows of the newest jobs."""
    query = (
        select(job_summaries)
        .where(job_summaries.c.study_id == study_id, job_summaries.c.config_digest == BASELINE)
        .order_by(job_summaries.c.newest_unix_s.desc())
        .limit(limit)
    )
    return connection.execute(query).mappings().all()


def everything(connection: Connection, study_id: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return all rows of both tables for a study, sorted: for comparing."""
    found = []
    for table in (job_summaries, config_summaries):
        query = select(table).where(table.c.study_id == study_id).order_by(*table.primary_key)
        found.append([dict(row) for row in connection.execute(query).mappings()])
    return found[0], found[1]
