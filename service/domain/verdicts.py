# SPDX-License-Identifier: Apache-2.0
"""Verdicts of a study, read together: the outcome of each job, and every reporter's word on each config."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from sqlalchemy import Connection

from ringtune.service.store import overview as table
from ringtune.service.store.summary_rows import UNCLEAR, AgedConfig, NamedReporter, StandName
from ringtune.shared_service.advice.rule import KeyAdvice, evidence_of, reason_of
from ringtune.shared_service.rest_models import Evidence
from ringtune.tuner import Config

from .jobs import StudyJob, jobs_of
from .reporters import OF_JOB, is_trusted_job

MAX_JOBS = 200
MAX_CONFIGS = 500
MAX_STANDS = 2000
"""Maximum stands of a study, those of paired tests first."""


@dataclass(frozen=True)
class ReporterStand:
    """One reporter's word on one config.

    Attributes:
        name: Name for people: the token's name, or the job's name, else its id.
        token_id: The token that its results came with; None: without one.
        job_id: The job, where jobs count one by one; None for a token that counts once.
        jobs: Its jobs that count here.
        tests: Its paired tests.
        windows: Its windows that lie between two baseline windows.
        stand: `adopted` or `kept` by paired tests; without any `faster`, `slower` or `unclear` by windows.
        speedup: Over the baseline, a fraction; by the paired tests where there are any.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
    """

    name: str
    token_id: str | None
    job_id: str | None
    jobs: int
    tests: int
    windows: int
    stand: StandName
    speedup: float
    ci_low: float
    ci_high: float


@dataclass(frozen=True)
class BestConfig:
    """A config and the verdict on it.

    Attributes:
        config: The config.
        evidence: The evidence of all reporters together.
        is_confirmed: Whether it is confirmed.
        is_promising: Whether a search may begin with it.
        stands: The stand of each reporter, where they were asked for; `MAX_STANDS` of all configs at most.
        telling: Number of reporters whose stand is not `unclear`, where they were asked for, beyond that limit too.
        reason: Grounds on which it is confirmed, or a prior, as recommendations give them.
        is_over_default: Whether its speed-up is over the target's default, not over a baseline that jobs were given.
        tested: Its speed-up in its reporters' own paired tests, a fraction; None without a test. It is what
            they found, and no promise.
    """

    config: Config
    evidence: Evidence
    is_confirmed: bool
    is_promising: bool
    stands: tuple[ReporterStand, ...] = ()
    reason: str = ""
    is_over_default: bool = True
    tested: float | None = None
    telling: int = 0


@dataclass(frozen=True)
class StudyVerdicts:
    """The jobs of a study, those that were heard of last first, and its configs, the best first."""

    jobs: tuple[StudyJob, ...]
    configs: tuple[BestConfig, ...]


def verdicts_of(connection: Connection, study_id: str) -> StudyVerdicts:
    """Return the outcomes of a study's jobs and configs; empty for a study that does not exist."""
    jobs = jobs_of(connection, study_id, MAX_JOBS)
    names = {job.job_id: job.name for job in jobs if job.name}
    stands: dict[str, list[ReporterStand]] = {}
    said = table.stands(connection, study_id, MAX_STANDS)
    for row in said:
        stands.setdefault(row.config_digest, []).append(_stand(row, names))
    telling = Counter(row.config_digest for row in said if row.stand != UNCLEAR)
    if len(said) == MAX_STANDS:
        telling = Counter(table.count_telling(connection, study_id))
    rows = table.configs(connection, study_id, MAX_CONFIGS)
    best = (best_of(row, stands.get(row.config_digest, ()), telling[row.config_digest]) for row in rows)
    return StudyVerdicts(jobs, tuple(best))


def recommended(row: AgedConfig, advice: KeyAdvice) -> BestConfig:
    """Return the config that the advice gives, with the advice's own word on it."""
    is_confirmed = advice.standing == "confirmed"
    evidence = evidence_of(row, row.age_s, has_gain=is_confirmed)
    return replace(best_of(row), evidence=evidence, is_confirmed=is_confirmed, reason=advice.reason)


def best_of(row: AgedConfig, stands: Sequence[ReporterStand] = (), telling: int = 0) -> BestConfig:
    """Return the config of a row, with the stands of its reporters and the number of those that say anything."""
    evidence, config = evidence_of(row, row.age_s, has_gain=row.is_confirmed), Config(row.config_values)
    return BestConfig(
        config=config,
        evidence=evidence,
        is_confirmed=row.is_confirmed,
        is_promising=row.is_promising,
        stands=tuple(stands),
        reason=reason_of(row),
        is_over_default=row.is_over_default,
        tested=row.speedup if row.adopted else None,
        telling=telling,
    )


def _stand(row: NamedReporter, names: Mapping[str, str]) -> ReporterStand:
    job_id = row.reporter.removeprefix(OF_JOB) if is_trusted_job(row.reporter) else None
    return ReporterStand(
        name=row.token_name or str(row.token_id) if job_id is None else names.get(job_id, job_id),
        token_id=row.token_id,
        job_id=job_id,
        jobs=row.jobs,
        tests=row.tests,
        windows=row.windows,
        stand=row.stand,
        speedup=row.speedup,
        ci_low=row.ci_low,
        ci_high=row.ci_high,
    )
