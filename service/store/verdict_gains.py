# SPDX-License-Identifier: Apache-2.0
"""The newest verdicts of a study's jobs, each beside the sums of the job's paired test.

The query walks two indexes up to a limit, however many jobs a study has, and is built once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, null, select, union_all
from sqlalchemy.sql.selectable import ScalarSelect, Subquery

from .key_verdicts import ADOPTED, DECIDED, IN_STUDY, MOST, newest_tests, reported_nothing
from .rows import all_of
from .summaries import BASELINE
from .tables import job_facts, job_summaries


@dataclass(frozen=True, kw_only=True)
class GainRow:
    """A job's verdict.

    Attributes:
        state: Its own word, `adopted` or `keeping_default`; None for a job that reported none, and has a paired test.
        adoptions: Paired tests of the config that it tested last; None where the gain is 0, or not known.
        log_speedup_e9: Their sum of ln(speed-up); None likewise.
        variance_e12: The sum of their variances; None likewise.
    """

    state: str | None
    adoptions: int | None
    log_speedup_e9: int | None
    variance_e12: int | None


def newest(connection: Connection, study_id: str, limit: int) -> Sequence[GainRow]:
    """Return the newest verdicts of a study's jobs, the newest first."""
    return all_of(connection.execute(NEWEST, {"study_id": study_id, "most": limit}), GainRow)


def _newest() -> Select[Any]:
    verdicts, own = union_all(_said(), _silent()).subquery(), job_summaries.c
    is_test = (
        (own.study_id == IN_STUDY) & (own.job_id == verdicts.c.job_id) & (own.config_digest == verdicts.c.config_digest)
    )
    return (
        select(verdicts.c.state, own.adoptions, own.log_speedup_e9, own.variance_e12)
        .select_from(verdicts.outerjoin(job_summaries, is_test))
        .order_by(verdicts.c.unix_s.desc())
        .limit(MOST)
    )


def _said() -> Select[Any]:
    """Return the newest verdicts that jobs reported, those that adopted with the config that they tested last."""
    own = job_facts.c
    said = (
        select(own.job_id, own.heard_unix_s.label("unix_s"), own.state)
        .where(own.study_id == IN_STUDY, own.state.in_(DECIDED))
        .order_by(own.heard_unix_s.desc())
        .limit(MOST)
        .subquery()
    )
    config = case((said.c.state == ADOPTED, _tested_last(said)))
    return select(said.c.job_id, said.c.unix_s, said.c.state, config.label("config_digest"))


def _tested_last(jobs: Subquery) -> ScalarSelect[str]:
    own = job_summaries.alias("tests").c
    is_test = (own.tested_unix_s.is_not(None), own.config_digest != BASELINE)
    query = select(own.config_digest).where(own.study_id == IN_STUDY, own.job_id == jobs.c.job_id, *is_test)
    return query.order_by(own.tested_unix_s.desc()).limit(1).correlate(jobs).scalar_subquery()


def _silent() -> Select[Any]:
    """Return the newest paired tests of jobs that reported no verdict."""
    tests = newest_tests()
    columns = (tests.c.job_id, tests.c.tested_unix_s.label("unix_s"), null().label("state"), tests.c.config_digest)
    return select(*columns).where(reported_nothing(tests))


NEWEST = _newest()
