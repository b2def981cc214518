# SPDX-License-Identifier: Apache-2.0
"""Queries behind the advice on a key: its studies, its newest verdicts, and the configs that paired tests adopted.

Each is a walk along an index up to a limit, however many jobs a study has. The statements are built once, because
building one takes longer than answering it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from sqlalchemy import Connection, Integer, Select, String, bindparam, case, delete, exists, false, func, select
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.selectable import Subquery

from .clock import UnixNow
from .rows import StudyHead, all_of
from .summaries import BASELINE, rank
from .summary_rows import AgedConfig
from .tables import config_summaries, job_facts, job_summaries, jobs, reporter_summaries, studies, tokens

DECIDED = ("adopted", "keeping_default")
UNRECORDED = "unrecorded"
"""Token of a job that is older than the record of jobs."""
ADOPTED = "adopted"
RUNNING = "running"
MOST = bindparam("most", type_=Integer())
"""Maximum number of rows."""
IN_STUDY = bindparam("study_id", type_=String())


@dataclass(frozen=True, kw_only=True)
class SaidVerdict:
    """The verdict that a job reported of itself; `token_id` is its owner's."""

    job_id: str
    token_id: str | None
    has_many_jobs: bool
    unix_s: float
    state: str


@dataclass(frozen=True, kw_only=True)
class TestedVerdict:
    """A paired test of a job that reported no verdict, in the sums of `job_summaries`."""

    job_id: str
    token_id: str | None
    has_many_jobs: bool
    unix_s: float
    adoptions: int
    log_speedup_e9: int
    variance_e12: int


def studies_of_key(
    connection: Connection, *, model: str, hardware: str | None, layout: str, surface: tuple[str, int], limit: int
) -> Sequence[StudyHead]:
    """Return the studies of a key, the newest first: one, or one of each hardware if that is None."""
    own = studies.c
    target, version = surface
    here = (own.model == model, own.layout == layout, own.target == target, own.surface_version == version)
    query = select(*(own[field.name] for field in fields(StudyHead))).where(*here)
    if hardware is not None:
        query = query.where(own.hardware == hardware)
    return all_of(connection.execute(query.order_by(own.created_unix_s.desc()).limit(limit)), StudyHead)


def adopted_of(connection: Connection, study_id: str, limit: int) -> Sequence[AgedConfig]:
    """Return the configs that paired tests adopted and whose votes hold, the best first."""
    return all_of(connection.execute(ADOPTED_OF, {"study_id": study_id, "most": limit}), AgedConfig)


def promising_of(connection: Connection, study_id: str, limit: int) -> Sequence[AgedConfig]:
    """Return the configs that a search may begin with, windows alone included, those that were adopted first."""
    adopted = adopted_of(connection, study_id, limit)
    rest = {"study_id": study_id, "most": limit - len(adopted)}
    return [*adopted, *(all_of(connection.execute(UNTESTED_OF, rest), AgedConfig) if rest["most"] else ())]


def adopters_of(connection: Connection, study_id: str, config_digest: str) -> frozenset[str]:
    """Return the reporters whose paired tests adopted a config."""
    found = connection.execute(ADOPTERS_OF, {"study_id": study_id, "config_digest": config_digest})
    return frozenset(found.scalars())


def said_verdicts(connection: Connection, study_id: str, limit: int) -> Sequence[SaidVerdict]:
    """Return the newest verdicts that jobs of a study reported, the newest first."""
    return all_of(connection.execute(SAID, {"study_id": study_id, "most": limit}), SaidVerdict)


def tested_verdicts(connection: Connection, study_id: str, limit: int) -> Sequence[TestedVerdict]:
    """Return those of the newest paired tests whose jobs reported no verdict, the newest first."""
    return all_of(connection.execute(TESTED, {"study_id": study_id, "most": limit}), TestedVerdict)


def forget_token(connection: Connection, token_id: str) -> None:
    """Delete the facts that the jobs of a token reported of themselves."""
    own = select(jobs.c.job_id).where(jobs.c.token_id == token_id)
    connection.execute(delete(job_facts).where(job_facts.c.job_id.in_(own)))


def _configs(*conditions: ColumnElement[bool]) -> Select[Any]:
    own = config_summaries.c
    return (
        select(config_summaries, (UnixNow() - own.newest_unix_s).label("age_s"))
        .where(own.study_id == IN_STUDY, own.is_promising.is_(True), *conditions)
        .order_by(*rank(config_summaries))
        .limit(MOST)
    )


def _adopters() -> Select[Any]:
    own = reporter_summaries.c
    is_it = (own.study_id == IN_STUDY, own.config_digest == bindparam("config_digest"))
    return select(own.reporter).where(*is_it, own.stand == ADOPTED)


def _said() -> Select[Any]:
    own = job_facts.c
    owner = case((jobs.c.job_id.is_(None), UNRECORDED), else_=jobs.c.token_id)
    return (
        select(
            own.job_id,
            owner.label("token_id"),
            func.coalesce(tokens.c.has_many_jobs, false()).label("has_many_jobs"),
            own.heard_unix_s.label("unix_s"),
            own.state,
        )
        .select_from(
            job_facts.outerjoin(jobs, jobs.c.job_id == own.job_id).outerjoin(
                tokens, tokens.c.token_id == jobs.c.token_id
            )
        )
        .where(own.study_id == IN_STUDY, own.state.in_(DECIDED))
        .order_by(own.heard_unix_s.desc())
        .limit(MOST)
    )


def newest_tests() -> Subquery:
    """Return a study's newest paired tests, rows of `job_summaries`, whatever their jobs reported; `MOST` at most."""
    own = job_summaries.c
    sums = (own.token_id, own.adoptions, own.log_speedup_e9, own.variance_e12, own.tested_unix_s)
    here = (own.study_id == IN_STUDY, own.tested_unix_s.is_not(None), own.config_digest != BASELINE)
    return (
        select(own.study_id, own.job_id, own.config_digest, *sums)
        .where(*here)
        .order_by(own.tested_unix_s.desc())
        .limit(MOST)
        .subquery()
    )


def reported_nothing(tests: Subquery) -> ColumnElement[bool]:
    """Tell whether the job of a paired test reported no verdict of itself."""
    said = job_facts.c
    is_decided = (said.study_id == tests.c.study_id, said.job_id == tests.c.job_id, said.state != RUNNING)
    return ~exists().where(*is_decided).correlate(tests)


def _tested() -> Select[Any]:
    tests = newest_tests()
    own = tests.c
    return (
        select(
            *(own.job_id, own.token_id, own.adoptions, own.log_speedup_e9, own.variance_e12),
            func.coalesce(tokens.c.has_many_jobs, false()).label("has_many_jobs"),
            own.tested_unix_s.label("unix_s"),
        )
        .select_from(tests.outerjoin(tokens, tokens.c.token_id == own.token_id))
        .where(reported_nothing(tests))
        .order_by(own.tested_unix_s.desc())
    )


ADOPTED_OF = _configs(config_summaries.c.adopted > 0)
UNTESTED_OF = _configs(config_summaries.c.adopted < 1)  # "= 0" would have SQLite sort the rows
ADOPTERS_OF = _adopters()
SAID = _said()
TESTED = _tested()
