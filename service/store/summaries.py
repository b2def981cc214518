# SPDX-License-Identifier: Apache-2.0
"""Queries on rows derived from the ledger: per job and config, per reporter and config, and per config."""

from collections.abc import Collection, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    FromClause,
    Select,
    UnaryExpression,
    bindparam,
    cast,
    delete,
    false,
    func,
    insert,
    select,
    update,
)

from .database import upsert
from .keys import Key, parameters, wanted
from .rows import all_of, columns_of
from .summary_rows import (
    ComparedJob,
    ConfigSummary,
    JobSummary,
    RankChange,
    ReporterRow,
    SpeakingReporter,
)
from .tables import RANK, config_summaries, job_records, job_summaries, reporter_summaries, studies, tokens

BASELINE = ""
"""The config digest of the row that has a job's own baseline."""
DERIVED = (job_summaries, config_summaries, reporter_summaries, job_records)
"""The tables that are derived from the ledger."""


def of_jobs(connection: Connection, keys: Collection[Key]) -> Sequence[JobSummary]:
    """Return the rows per job and config, by study, job and config."""
    return all_of(connection.execute(OF_JOBS, parameters(keys)), JobSummary)


def _of_jobs() -> Select[Any]:
    rows, is_wanted = wanted((job_summaries.c.study_id, job_summaries.c.job_id, job_summaries.c.config_digest))
    return select(job_summaries).select_from(rows.join(job_summaries, is_wanted))


OF_JOBS = _of_jobs()


def config_counts(connection: Connection, keys: Collection[Key]) -> dict[Key, int]:
    """Return how many configs jobs have rows for, by study and job; without those that have none."""
    rows = connection.execute(CONFIG_COUNTS, parameters(keys))
    return {(study_id, job_id): count for study_id, job_id, count in rows}


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


def compared(connection: Connection, keys: Collection[Key], jobs: int) -> Sequence[ComparedJob]:
    """Return for each of some configs the rows of its newest jobs, each beside the job's baseline.

    Rows are sorted by study and config, then by baseline; of a token's jobs those with paired tests come first, then
    the newest. `own_baseline` is JSON, None without a baseline; `has_many_jobs` tells whether an operator declared that
    of the token; `all_trials` and `all_jobs` are those of all jobs with the same baseline together.

    Args:
        connection: Connection to the database.
        keys: Studies and configs.
        jobs: Number of jobs of each token per config and baseline.
    """
    return all_of(connection.execute(COMPARED, {**parameters(keys), "jobs": jobs}), ComparedJob)


def _compared() -> Select[Any]:
    own, baseline = job_summaries, job_summaries.alias("of_baseline")
    rows, is_wanted = wanted((own.c.study_id, own.c.config_digest))
    is_baseline = (
        (baseline.c.study_id == own.c.study_id)
        & (baseline.c.job_id == own.c.job_id)
        & (baseline.c.config_digest == BASELINE)
    )
    alike = (own.c.study_id, own.c.config_digest, baseline.c.baseline)
    tested_first = ((own.c.adoptions > 0).desc(), own.c.newest_unix_s.desc(), own.c.job_id)
    ranked = (
        select(
            own,
            baseline.c.baseline.label("own_baseline"),
            func.coalesce(tokens.c.has_many_jobs, false()).label("has_many_jobs"),
            func.row_number().over(partition_by=(*alike, own.c.token_id), order_by=tested_first).label("place"),
            cast(func.sum(own.c.trials).over(partition_by=alike), BigInteger()).label("all_trials"),
            func.count().over(partition_by=alike).label("all_jobs"),
        )
        .select_from(
            rows.join(own, is_wanted)
            .outerjoin(baseline, is_baseline)
            .outerjoin(tokens, tokens.c.token_id == own.c.token_id)
        )
        .subquery()
    )
    return (
        select(*(column for column in ranked.c if column.name != "place"), studies.c.target, studies.c.layout)
        .select_from(ranked.join(studies, studies.c.study_id == ranked.c.study_id))
        .where(ranked.c.place <= bindparam("jobs", type_=BigInteger()))
        .order_by(ranked.c.study_id, ranked.c.config_digest, ranked.c.own_baseline, ranked.c.place, ranked.c.job_id)
    )


COMPARED = _compared()


def put_jobs(connection: Connection, rows: Sequence[JobSummary]) -> None:
    """Insert or replace rows per job and config."""
    upsert(connection, job_summaries, rows)


def put_configs(connection: Connection, rows: Sequence[ConfigSummary]) -> None:
    """Insert or replace rows per config."""
    upsert(connection, config_summaries, rows)


def put_reporters(connection: Connection, keys: Collection[Key], rows: Sequence[ReporterRow]) -> None:
    """Replace all rows per reporter of some configs.

    Args:
        connection: Connection to the database.
        keys: Studies and configs.
        rows: The rows that these have from now on.
    """
    own = reporter_summaries.c
    here = [{"of_study": study_id, "of_config": digest} for study_id, digest in keys]
    if here:
        this = (own.study_id == bindparam("of_study"), own.config_digest == bindparam("of_config"))
        connection.execute(delete(reporter_summaries).where(*this), here)
    if rows:
        connection.execute(insert(reporter_summaries), columns_of(rows))


def speaking(connection: Connection, study_ids: Collection[str], stands: Collection[str]) -> Sequence[SpeakingReporter]:
    """Return the rows per reporter whose stand is one of these, each beside its config's row."""
    own, config = reporter_summaries.c, config_summaries.c
    both = (own.study_id == config.study_id) & (own.config_digest == config.config_digest)
    beside = ("is_over_default", "is_promising", "is_supported", "is_confirmed", "opposed", "beaten")
    query = (
        select(reporter_summaries, *(config[name] for name in beside))
        .select_from(reporter_summaries.join(config_summaries, both))
        .where(own.study_id.in_(study_ids), own.stand.in_(stands))
    )
    return all_of(connection.execute(query), SpeakingReporter)


def set_ranks(connection: Connection, changes: Sequence[RankChange]) -> None:
    """Set the columns that depend on the other configs of a study."""
    if changes:
        own = config_summaries.c
        this = (own.study_id == bindparam("of_study"), own.config_digest == bindparam("of_config"))
        names = ("is_promising", "is_supported", "is_confirmed", "beaten")
        values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in names}
        given = [
            {
                "of_study": change.study_id,
                "of_config": change.config_digest,
                **{f"new_{name}": getattr(change, name) for name in names},
            }
            for change in changes
        ]
        connection.execute(update(config_summaries).where(*this).values(**values), given)


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
    """Remove the derived rows of a study."""
    for table in DERIVED:
        connection.execute(delete(table).where(table.c.study_id == study_id))


def rank(table: FromClause) -> tuple[UnaryExpression[Any], ...]:
    """Return the order of promising configs, the best first.

    Those that were compared with the default come first, and of them those that enough reporters adopted. Then votes
    decide, never the size of a claim: the number of others that a config beats, and the number of reporters that speak
    for it. Of those that tie it is the one that came first.
    """
    return tuple(table.c[name].desc() for name in RANK)


def baselines_of(connection: Connection, study_id: str, limit: int) -> Sequence[JobSummary]:
    """Return the baseline rows of the newest jobs."""
    query = (
        select(job_summaries)
        .where(job_summaries.c.study_id == study_id, job_summaries.c.config_digest == BASELINE)
        .order_by(job_summaries.c.newest_unix_s.desc())
        .limit(limit)
    )
    return all_of(connection.execute(query), JobSummary)


def everything(connection: Connection, study_id: str) -> tuple[list[dict[str, Any]], ...]:
    """Return all rows of the tables in `DERIVED` for a study, sorted: for comparing."""
    found = []
    for table in DERIVED:
        query = select(table).where(table.c.study_id == study_id).order_by(*table.primary_key)
        found.append([dict(row) for row in connection.execute(query).mappings()])
    return tuple(found)
