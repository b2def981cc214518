# SPDX-License-Identifier: Apache-2.0
"""The newest verdicts and their mean gain on both databases, within a limit however many jobs there are."""

from dataclasses import replace

import pytest

from ringtune.service.domain import Service
from ringtune.service.domain.gains import gain_of
from ringtune.service.domain.jobs import JobReport
from ringtune.service.domain.overview import Overview, Wanted
from ringtune.service.store import Database, key_verdicts, verdict_gains
from ringtune.service.store.rows import SaidState
from ringtune.service.store.tables import job_facts
from tests.unit.service.domain.reported import BETTER, KEY, OTHER, measure, study_of


@pytest.fixture
def study_id(service: Service, database: Database) -> str:
    """A study whose jobs came to verdicts: two silent ones, then one that kept, one that adopted, one untested."""
    study = study_of(service)
    for job_id, step_ms in (("silent-1", 80.0), ("kept", 99.0), ("adopted", 50.0), ("silent-2", 120.0)):
        measure(service, study, job_id, BETTER, step_ms)
    for job_id in ("silent-2", "adopted"):
        measure(service, study, job_id, OTHER, 120.0 if job_id == "silent-2" else 80.0)
    service.jobs.put(study.study_id, "running", JobReport("running"))
    states: tuple[tuple[str, SaidState], ...] = (
        ("kept", "keeping_default"),
        ("adopted", "adopted"),
        ("untested", "adopted"),
    )
    for later, (job_id, state) in enumerate(states):
        service.jobs.put(study.study_id, job_id, JobReport(state))
        with database.writing() as connection:
            facts = job_facts.update().where(job_facts.c.job_id == job_id)
            connection.execute(facts.values(heard_unix_s=4e9 + later))
    return study.study_id


def test_each_verdict_has_the_gain_of_the_test_behind_it(study_id: str, database: Database) -> None:
    """A job's own word comes first; a silent one has that of its test; the config that was tested last counts."""
    with database.reading() as connection:
        rows = verdict_gains.newest(connection, study_id, 10)
        gain = gain_of(connection, study_id)

    assert ["adopted", "adopted", "keeping_default", None, None] == [row.state for row in rows]
    tested = [None if row.speedup is None else round(row.speedup, 6) for row in rows]
    assert [None, 0.25, None, -0.166667, 0.25] == tested
    assert (4, 2) == (gain.jobs, gain.adopted)
    assert gain.interval is not None
    assert pytest.approx(1.25**0.5 - 1) == gain.interval.speedup


def test_verdicts_beyond_the_limit_are_not_looked_at(study_id: str, database: Database) -> None:
    """Neither walk goes on past jobs that the other one has: the newest tests are of jobs that reported a verdict."""
    with database.reading() as connection:
        gains = [len(verdict_gains.newest(connection, study_id, limit)) for limit in (1, 3, 10)]
        found = [key_verdicts.tested_verdicts(connection, study_id, limit) for limit in (1, 2, 10)]

    assert [1, 3, 5] == gains
    silent = [list(dict.fromkeys(row.job_id for row in rows)) for rows in found]
    assert [[], ["silent-2"], ["silent-2", "silent-1"]] == silent


def test_a_list_has_the_gain_of_each_study(study_id: str, service: Service, database: Database) -> None:
    """A study without a verdict has none, and does not count in the mean of all."""
    empty = study_of(service, replace(KEY, layout=(4,))).study_id

    found = {item.study_id: item.gain for item in Overview(database).studies(Wanted()).items}

    assert {study_id: 4, empty: 0} == {name: gain.jobs for name, gain in found.items()}
    assert found[study_id] == found[study_id] + found[empty]
