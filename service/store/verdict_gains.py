# SPDX-License-Identifier: Apache-2.0
"""The newest verdicts of a study's jobs, each beside the job's newest paired test.

The query walks two indexes up to a limit, however many jobs a study has, and is built once.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, case, func, null, select, union_all
from sqlalchemy.sql.selectable import ScalarSelect, Subquery

from .key_verdicts import ADOPTED, DECIDED, IN_STUDY, MOST, newest_tests, reported_nothing
from .reports import COUNTED
from .rows import all_of
from .tables import job_facts, reports


@dataclass(frozen=True, kw_only=True)
class GainRow:
    """A job's verdict, with the figures of its newest paired test; they are None without one, and not read if it kept.

    Attributes:
        state: Its own word, `adopted` or `keeping_default`; None for a job that reported none.
        speedup: Over its baseline, a fraction.
        ci_low: Lower end of its interval.
        ci_high: Upper end.
        ci_level: Level of the interval; None in results of old versions.
    """

    state: str | None
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    ci_level: float | None


def newest(connection: Connection, study_id: str, limit: int) -> Sequence[GainRow]:
    """Return the newest verdicts of a study's jobs, the newest first; of a silent job its test is the verdict."""
    return all_of(connection.execute(NEWEST, {"study_id": study_id, "most": limit}), GainRow)


def _newest() -> Select[Any]:
    verdicts, own = union_all(_said(), _silent()).subquery(), reports.c
    return (
        select(verdicts.c.state, own.speedup, own.ci_low, own.ci_high, own.ci_level)
        .select_from(verdicts.outerjoin(reports, own.number == verdicts.c.test))
        .order_by(verdicts.c.unix_s.desc())
        .limit(MOST)
    )


def _said() -> Select[Any]:
    """Return the newest verdicts that jobs reported, those that adopted with their newest test."""
    own = job_facts.c
    said = (
        select(own.job_id, own.heard_unix_s.label("unix_s"), own.state)
        .where(own.study_id == IN_STUDY, own.state.in_(DECIDED))
        .order_by(own.heard_unix_s.desc())
        .limit(MOST)
        .subquery()
    )
    test = case((said.c.state == ADOPTED, _newest_test(said)))
    return select(said.c.unix_s, said.c.state, test.label("test"))


def _silent() -> Select[Any]:
    """Return the jobs of the newest paired tests that reported no verdict, each once."""
    tests = newest_tests()
    query = select(tests.c.job_id, func.max(tests.c.tested_unix_s).label("unix_s")).where(reported_nothing(tests))
    jobs = query.group_by(tests.c.job_id).subquery()
    return select(jobs.c.unix_s, null().label("state"), _newest_test(jobs).label("test"))


def _newest_test(jobs: Subquery) -> ScalarSelect[int]:
    own = reports.alias("tests").c
    is_test = (own.speedup.is_not(None), own.status.in_(COUNTED))
    query = select(own.number).where(own.study_id == IN_STUDY, own.job_id == jobs.c.job_id, *is_test)
    return query.order_by(own.number.desc()).limit(1).correlate(jobs).scalar_subquery()


NEWEST = _newest()
