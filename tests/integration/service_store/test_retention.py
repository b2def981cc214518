# SPDX-License-Identifier: Apache-2.0
"""Retention, on both databases: the oldest results go, and no clock that is wrong takes the others with them."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace

import pytest
from sqlalchemy import Connection, select, update

from ringtune.service.domain import Service, ServiceLimits, retention
from ringtune.service.domain.retention import ClockDoubted, Retention
from ringtune.service.domain.summary_updates import rebuild
from ringtune.service.domain.values import Removed
from ringtune.service.store import Database
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.tables import reports as reports_table
from tests.unit.service.domain.reported import BETTER, KEY, OTHER, QUERY, measure, new_id, result, study_of, tell

HOUR_S, DAY_S = 3600.0, 86_400.0
AGE_S = 90 * DAY_S
POLICY = ServiceLimits(design_workers=0, max_age_s=AGE_S)
Serving = Callable[[ServiceLimits], Service]


@pytest.fixture
def serving(database: Database) -> Iterator[Serving]:
    """Makes services over the database, and closes them."""
    made: list[Service] = []

    def make(policy: ServiceLimits) -> Service:
        service = Service(database, policy=policy)
        service.start()
        made.append(service)
        return service

    yield make
    for each in made:
        each.close()


@dataclass
class Clocks:
    """Both clocks of a retention; the database's is its own plus `ahead_s`.

    Attributes:
        steady_s: The clock that cannot be set.
        ahead_s: Seconds by which the other clock was ahead.
    """

    database: Database
    monkeypatch: pytest.MonkeyPatch
    steady_s: float = 0.0
    ahead_s: float = 0.0
    rests: list[float] = field(default_factory=list)

    def retention(self, policy: ServiceLimits = POLICY) -> Retention:
        """Return a retention that reads these clocks."""
        self.monkeypatch.setattr(retention, "now_unix_s", self._now)
        return Retention(self.database, policy, rest=self.rests.append, steady=lambda: self.steady_s)

    def _now(self, connection: Connection) -> float:
        return now_unix_s(connection) + self.steady_s + self.ahead_s


@pytest.fixture
def clocks(database: Database, monkeypatch: pytest.MonkeyPatch) -> Clocks:
    """Clocks that may be set."""
    return Clocks(database, monkeypatch)


def came(database: Database, job_id: str, ago_s: float) -> None:
    """Make a job's results older than they are."""
    with database.writing() as connection:
        then = now_unix_s(connection) - ago_s
        connection.execute(update(reports_table).where(reports_table.c.job_id == job_id).values(received_unix_s=then))


def daily(service: Service, database: Database, days: int) -> None:
    """Report one result for each of the last days, as jobs do that run all the time."""
    study_id = study_of(service).study_id
    for day in range(days):
        tell(service, study_id, new_id(), result(f"job-{day}", BETTER, 80.0))
        came(database, f"job-{day}", day * DAY_S)


def jobs_left(database: Database) -> set[str]:
    """Return the ids of the jobs that have results."""
    with database.reading() as connection:
        return set(connection.execute(select(reports_table.c.job_id)).scalars())


def test_the_oldest_go_with_their_derived_rows(database: Database, serving: Serving) -> None:
    """The oldest results by age, then by number, are deleted, and the summaries are those of the rest."""
    service = serving(ServiceLimits(design_workers=0, max_age_s=HOUR_S, max_results=8))
    study = study_of(service)
    for job_id, ago_s in (("old", 50 * DAY_S), ("middle", HOUR_S / 3), ("new", 0.0)):
        measure(service, study, job_id, BETTER if job_id == "new" else OTHER, 80.0)
        came(database, job_id, ago_s)
    measure(service, study, "other", BETTER, 80.0)

    removed = service.retention.apply()

    assert Removed(6 + 10, 0) == removed
    assert Removed(0, 0) == service.retention.apply()
    assert (8, 2) == (service.studies.get(study.study_id).trials, service.studies.get(study.study_id).jobs)
    assert BETTER == service.recommendations.find(QUERY).config
    assert 0 == Service(database).retention.apply().results


def test_age_looks_at_each_result_itself(database: Database, serving: Serving) -> None:
    """An imported result has an old time and a new number; its deletion takes no fresh result with it."""
    service = serving(ServiceLimits(design_workers=0, max_age_s=HOUR_S))
    study = study_of(service)
    for job_id, ago_s in (("fresh", 0.0), ("middle", HOUR_S / 3), ("imported", 50 * DAY_S)):
        measure(service, study, job_id, BETTER, 80.0)
        came(database, job_id, ago_s)

    assert Removed(6, 0) == service.retention.apply()
    assert {"fresh", "middle"} == jobs_left(database)


def test_others_report_between_two_studies(
    database: Database, serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deletion holds the ledger for one study at a time, and leaves complete studies alone."""
    service = serving(ServiceLimits(design_workers=0, max_age_s=HOUR_S))
    layouts = [(ranks,) for ranks in range(1, 5)]
    for layout in layouts:
        measure(service, study_of(service, replace(KEY, layout=layout)), "old", OTHER, 70.0)
    came(database, "old", 50 * DAY_S)
    fresh = study_of(service, replace(KEY, layout=(9,)))
    for job_id, ago_s in (("middle", HOUR_S / 3), ("job-1", 0.0)):
        measure(service, fresh, job_id, BETTER, 80.0)
        came(database, job_id, ago_s)
    rebuilt: list[str] = []

    def rebuild_after_a_report(connection: Connection, study_ids: Collection[str], max_speedup: float) -> None:
        rebuild(connection, study_ids, max_speedup)
        rebuilt.extend(study_ids)

    monkeypatch.setattr(retention, "rebuild", rebuild_after_a_report)

    def report(_seconds: float) -> None:
        tell(service, fresh.study_id, new_id(), result("job-1", BETTER, 80.0))

    removed = Retention(database, ServiceLimits(max_age_s=HOUR_S), rest=report).apply()

    assert Removed(4 * 6, 0) == removed
    assert {study_of(service, replace(KEY, layout=layout)).study_id for layout in layouts} == set(rebuilt)
    assert 4 == len(rebuilt)
    assert 12 + 4 == service.studies.get(fresh.study_id).trials


def test_a_clock_that_is_ahead_at_the_start_removes_no_result(
    database: Database, serving: Serving, clocks: Clocks
) -> None:
    """A hundred days ahead, with a period of ninety: refused, however often; the right clock goes on as ever."""
    service = serving(POLICY)
    daily(service, database, 20)
    clocks.ahead_s = 100 * DAY_S
    ahead = clocks.retention()

    for _ in range(3):
        with pytest.raises(ClockDoubted, match="newest result is 100 days old.*clock may be ahead"):
            ahead.apply()
    clocks.ahead_s = 0.0

    assert Removed(0, 0) == clocks.retention().apply()
    assert 20 == len(jobs_left(database))


def test_results_under_a_clock_that_is_ahead_do_not_bear_it_out(
    database: Database, serving: Serving, clocks: Clocks
) -> None:
    """Results that come meanwhile carry the wrong time: earlier ones go only after days of them."""
    service = serving(POLICY)
    daily(service, database, 20)
    study_id = study_of(service).study_id
    tell(service, study_id, new_id(), result("ahead", BETTER, 80.0))
    came(database, "ahead", -100 * DAY_S)
    clocks.ahead_s = 100 * DAY_S + HOUR_S

    with pytest.raises(ClockDoubted, match=r"no result came for 45 days before the newest ones"):
        clocks.retention().apply()

    assert 21 == len(jobs_left(database))
    clocks.ahead_s = 0.0
    assert Removed(0, 0) == clocks.retention().apply()  # results of the future make no other older


def test_a_clock_that_is_set_meanwhile_removes_no_result_that_time(
    database: Database, serving: Serving, clocks: Clocks
) -> None:
    """A step between two runs, forwards or back, is noticed by a clock that cannot be set."""
    service = serving(POLICY)
    daily(service, database, 100)
    kept = clocks.retention()
    kept.begin()
    clocks.ahead_s = 40 * DAY_S

    with pytest.raises(ClockDoubted, match=r"the clock was set by \+3456000 s"):
        kept.apply()
    clocks.ahead_s = 0.0
    with pytest.raises(ClockDoubted, match=r"the clock was set by -3456000 s"):
        kept.apply()
    assert 100 == len(jobs_left(database))

    clocks.steady_s = HOUR_S  # an hour passed on both
    assert 9 <= kept.apply().results <= 10
    assert 90 <= len(jobs_left(database)) <= 91


def test_one_run_removes_a_tenth_at_most(database: Database, serving: Serving, clocks: Clocks) -> None:
    """The oldest first, the others in the next runs; the newest stay even if no more come."""
    service = serving(ServiceLimits(design_workers=0, max_age_s=10 * DAY_S))
    daily(service, database, 40)
    policy = ServiceLimits(max_age_s=10 * DAY_S)
    left, runs = 40, 0

    while (removed := clocks.retention(policy).apply().results) > 0:
        assert removed <= max(1, -(-left // 10))
        left, runs = left - removed, runs + 1

    assert 5 < runs
    assert {f"job-{day}" for day in range(10)} <= jobs_left(database) <= {f"job-{day}" for day in range(11)}


def test_results_of_one_moment_go_together(database: Database, serving: Serving, clocks: Clocks) -> None:
    """An import of old results, more than a tenth of all, is no obstacle for good."""
    service = serving(POLICY)
    daily(service, database, 60)
    study_id = study_of(service).study_id
    for _ in range(40):
        tell(service, study_id, new_id(), result("imported", BETTER, 80.0))
    came(database, "imported", 500 * DAY_S)

    assert Removed(40, 0) == clocks.retention().apply()
