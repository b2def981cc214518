# SPDX-License-Identifier: Apache-2.0
"""The ledger on both databases: the outcome of results, and that derived rows follow it."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest
from sqlalchemy import update

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.summary_updates import rebuild_all
from ringtune.service.domain.values import PairedTestResult
from ringtune.service.errors import (
    ImplausibleResult,
    OutsideSearchSpace,
    ResultConflict,
    StudyNotFound,
    TrialConflict,
)
from ringtune.service.store import Database, reports, summaries
from ringtune.service.store.tables import trials
from ringtune.shared_service.rest_models import StoredResult
from ringtune.tuner import Phase, VoidReason, search_space
from tests.unit.service.domain.reported import BETTER, DEFAULT, new_id, result, study_of, tell

LIMIT = ServiceLimits().max_speedup


def rows_of(database: Database, study_id: str) -> list[dict[str, object]]:
    """Return the ledger's rows of a study."""
    with database.reading() as connection:
        return [vars(row) for row in reports.of_study(connection, study_id)]


def test_the_same_result_again_is_no_change_and_another_is_a_conflict(service: Service, database: Database) -> None:
    """A retry is answered `same`; another body under the same trial is refused, and the first stays."""
    study_id, trial_id = study_of(service).study_id, new_id()

    first = tell(service, study_id, trial_id, result("job-1", BETTER, 80.0))
    again = tell(service, study_id, trial_id, result("job-1", BETTER, 80.0))

    assert ("new", "same") == (first.status, again.status)
    with pytest.raises(ResultConflict, match=trial_id):
        tell(service, study_id, trial_id, result("job-1", BETTER, 81.0))
    assert [80.0] == [row["median_step_ms"] for row in rows_of(database, study_id)]


def test_many_callers_are_stored_once_each(service: Service, database: Database) -> None:
    """Every result is reported three times from many threads at once; one row each."""
    study_id = study_of(service).study_id
    sent = [(new_id(), result(f"job-{n % 7}", BETTER, 80.0 + n)) for n in range(100)]

    with ThreadPoolExecutor(16) as pool:
        statuses = list(pool.map(lambda item: tell(service, study_id, *item).status, sent * 3))

    assert 100 == statuses.count("new")
    assert 200 == statuses.count("same")
    assert sorted(trial_id for trial_id, _ in sent) == sorted(str(r["trial_id"]) for r in rows_of(database, study_id))


def test_a_result_after_the_lease_is_kept_as_late(service: Service, database: Database) -> None:
    """Ended by time, or superseded by a newer token: the result is data, and says why."""
    study_id = study_of(service).study_id
    expired, superseded, held = (service.suggestions.ask(study_id, new_id(), "job-1", 60.0) for _ in range(3))
    with database.writing() as connection:
        connection.execute(update(trials).where(trials.c.trial_id == expired.trial_id).values(expires_unix_s=0.0))

    stored = {
        lease.trial_id: tell(
            service, study_id, lease.trial_id, result("job-1", lease.config, fencing_token=token)
        ).status
        for lease, token in ((expired, 1), (superseded, 7), (held, 1))
    }

    assert {expired.trial_id: "late", superseded.trial_id: "late", held.trial_id: "new"} == stored


def test_another_jobs_trial_cannot_be_reported(service: Service) -> None:
    """A result for a trial under a lease comes from the job that asked for it."""
    study_id = study_of(service).study_id
    lease = service.suggestions.ask(study_id, new_id(), "job-1", 60.0)

    with pytest.raises(TrialConflict, match="job-1"):
        tell(service, study_id, lease.trial_id, result("job-2", lease.config))


def test_an_impossible_result_is_refused_and_leaves_its_neighbours(service: Service, database: Database) -> None:
    """In a batch each result stands for itself, in the order of the request."""
    study_id = study_of(service).study_id
    honest = result("job-1", BETTER, 80.0)
    outside = DEFAULT.replace({"cycle_ms": 51.0})
    taken = new_id()
    tell(service, study_id, taken, honest)
    batch = [
        (new_id(), honest),
        (new_id(), replace(honest, score_bytes_per_s=float("nan"))),
        (new_id(), replace(honest, config=outside)),
        (taken, result("job-1", BETTER, 90.0)),
        (new_id(), replace(honest, adoption=PairedTestResult(2 * LIMIT, LIMIT, 3 * LIMIT, 5))),
        (new_id(), replace(honest, valid=False, reason=VoidReason.PAUSE)),
    ]
    batch += [batch[0], (batch[0][0], result("job-1", BETTER, 90.0))]

    stored = service.ledger.tell_batch(study_id, batch)

    assert ["new", "refused", "refused", "conflict", "quarantined", "new", "same", "conflict"] == [
        item.status for item in stored
    ]
    assert [trial_id for trial_id, _ in batch] == [item.trial_id for item in stored]
    assert all(item.reason for item in stored if item.status not in {"new", "same"})
    assert 4 == len(rows_of(database, study_id))
    with pytest.raises(ImplausibleResult):
        tell(service, study_id, *batch[1])
    with pytest.raises(OutsideSearchSpace, match="cycle_ms"):
        tell(service, study_id, *batch[2])


def test_results_unlike_the_jobs_own_baseline_are_quarantined(service: Service) -> None:
    """A step that is more than the limit away from the job's baseline is kept, and not used."""
    study = study_of(service)
    tell(service, study.study_id, new_id(), result("job-1", phase=Phase.BASELINE))

    stored = tell(service, study.study_id, new_id(), result("job-1", BETTER, 100.0 / (1.01 * (1 + LIMIT))))

    assert "quarantined" == stored.status
    assert "baseline" in str(stored.reason)
    assert 1 == service.studies.get(study.study_id).trials


def test_a_job_without_end_is_quarantined(database: Database) -> None:
    """A job with more configs than a search takes adds no more, but may repeat its own."""
    service = Service(database, policy=ServiceLimits(design_workers=0, max_configs_per_job=3))
    service.start()
    study_id = study_of(service).study_id
    configs = [DEFAULT.replace({"cycle_ms": 1.0 + n}) for n in range(4)]

    stored = service.ledger.tell_batch(study_id, [(new_id(), result("job-1", c)) for c in (*configs, configs[0])])

    assert ["new", "new", "new", "quarantined", "new"] == [item.status for item in stored]
    service.close()


def test_an_unknown_study_is_named(service: Service) -> None:
    """A result or a batch for an unknown study is refused; a study that was deleted is noticed."""
    study_id = study_of(service).study_id
    with pytest.raises(StudyNotFound, match="no study"):
        tell(service, "f" * 32, new_id(), result("job-1"))
    with pytest.raises(StudyNotFound, match="no study"):
        service.ledger.tell_batch("f" * 32, [(new_id(), result("job-1"))])

    tell(service, study_id, new_id(), result("job-1"))
    service.studies.delete(study_id)

    with pytest.raises(StudyNotFound):
        tell(service, study_id, new_id(), result("job-1"))


def test_derived_rows_are_those_of_a_rebuild(service: Service, database: Database) -> None:
    """Random results of several jobs, in random order and groups: the summaries are those of the ledger."""
    rng = np.random.default_rng(7)
    study_id = study_of(service).study_id
    space = search_space({}, DEFAULT)
    configs = [space.random(rng) for _ in range(6)]
    results = []
    for number in range(300):
        phase = Phase.BASELINE if number % 5 == 0 else Phase.SEARCH
        config = DEFAULT if number % 5 == 0 else configs[number % 6]
        adoption = PairedTestResult(0.1, 0.05, 0.15, 6) if number % 11 == 1 else None
        step_ms = float(rng.uniform(10.0, 900.0))
        results.append((new_id(), result(f"job-{number % 9}", config, step_ms, phase=phase, adoption=adoption)))

    with ThreadPoolExecutor(4) as pool:
        stored = list(pool.map(lambda start: service.ledger.tell_batch(study_id, results[start::20]), range(20)))

    with database.reading() as connection:
        incremental = summaries.everything(connection, study_id)
    with database.writing(reports.LOCK) as connection:
        rebuild_all(connection, LIMIT)
        assert incremental == summaries.everything(connection, study_id)
    assert {"new", "quarantined"} == {item.status for batch in stored for item in batch}, stored
    assert 6 == len(incremental[1])


def test_the_feed_has_every_result_once_and_in_order(service: Service) -> None:
    """A reader that asks for results after the last number misses none, also while many write."""
    study_id = study_of(service).study_id
    seen: list[str] = []
    number = service.events.newest()

    with ThreadPoolExecutor(8) as pool:
        answers = [pool.submit(tell, service, study_id, new_id(), result(f"job-{n}")) for n in range(60)]
        while len(seen) < 60:
            events = service.events.since(number, limit=7)
            seen += [event.trial_id for event in events]
            number = events[-1].number if events else number

    stored: list[StoredResult] = [answer.result() for answer in answers]
    assert sorted(item.trial_id for item in stored) == sorted(seen)
    assert number == service.events.newest()
