# SPDX-License-Identifier: Apache-2.0
"""One token may hold so many leases, and create so many studies in a day, on both databases."""

from collections.abc import Iterator

import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.jobs import JobReport
from ringtune.service.domain.suggestions import HeldLease
from ringtune.service.domain.values import ReportedResult
from ringtune.service.errors import QuotaExceeded
from ringtune.service.store import Database
from ringtune.service.store.tables import token_usage
from ringtune.tuner import ENGINE_PARAMETERS, Phase, SearchSpace
from ringtune.tuner.priors.relevance import StudyKey
from tests.integration.service_store.run_logs import log_of
from tests.unit.service.domain.reported import new_id, result, study_of, tell

LEASES, STUDIES, ROWS, JOBS = 3, 2, 5, 2
HOUR_S, DAY_S = 3600.0, 86_400.0
ONE, OTHER = "0" * 16, "1" * 16


@pytest.fixture
def narrow(database: Database) -> Service:
    """A service with small quotas."""
    return Service(database, policy=ServiceLimits(max_leases_per_token=LEASES, max_new_studies_per_token=STUDIES))


def created(service: Service, number: int, token_id: str | None) -> str:
    """Create a study of another model with a token and return its id."""
    key = StudyKey("a" * 64, f"{number:064x}", (2,), "ringtune", 1)
    return service.studies.find_or_create(
        key, space_json=SearchSpace(ENGINE_PARAMETERS, {}).to_json(), token_id=token_id
    ).study_id


def test_a_token_holds_so_many_leases_in_a_study(narrow: Service) -> None:
    """One that is released makes room; the same trial again needs none; other tokens and no token have their own."""
    study_id = study_of(narrow).study_id

    def ask(trial_id: str, token_id: str | None, job_id: str, lease_s: float = 600.0) -> int:
        return narrow.suggestions.ask(study_id, trial_id, job_id, lease_s, token_id=token_id).fencing_token

    jobs = {token: new_id() for token in (ONE, OTHER, None)}
    first, *_others = held = [new_id() for _ in range(LEASES)]
    fencing = [ask(trial, ONE, jobs[ONE]) for trial in held]

    with pytest.raises(QuotaExceeded, match=f"holds {LEASES} leases"):
        ask(new_id(), ONE, jobs[ONE])
    assert fencing[0] == ask(first, ONE, jobs[ONE])
    ask(new_id(), OTHER, jobs[OTHER])
    for _ in range(LEASES + 1):
        ask(new_id(), None, jobs[None])
    narrow.suggestions.release(HeldLease(study_id, first, jobs[ONE], fencing[0], ONE))
    ask(new_id(), ONE, jobs[ONE])
    with pytest.raises(QuotaExceeded):
        ask(new_id(), ONE, jobs[ONE])


def baseline_of(job_id: str, token_id: str | None) -> ReportedResult:
    """Return a window of the baseline."""
    return result(job_id, phase=Phase.BASELINE, token_id=token_id)


@pytest.fixture
def thrifty(database: Database) -> Iterator[Service]:
    """A service whose tokens may store few rows and begin few jobs."""
    limits = ServiceLimits(design_workers=0, max_rows_per_token=ROWS * 30, max_new_jobs_per_token=JOBS)
    service = Service(database, policy=limits)
    service.start()
    yield service
    service.close()


def test_a_token_stores_so_many_rows(thrifty: Service, database: Database) -> None:
    """A batch beyond the quota is answered 429 as a whole; sent again later it goes on; other tokens have their own."""
    study_id, jobs = study_of(thrifty).study_id, {token: new_id() for token in (ONE, OTHER, None)}
    batch = [(new_id(), baseline_of(jobs[ONE], ONE)) for _ in range(ROWS + 1)]

    with pytest.raises(QuotaExceeded, match=f"{ROWS} at once") as refused:
        thrifty.ledger.tell_batch(study_id, batch)
    assert 0 < (refused.value.retry_after_s or 0) < HOUR_S
    for call in (
        lambda: tell(thrifty, study_id, new_id(), baseline_of(jobs[ONE], ONE)),
        lambda: thrifty.suggestions.ask(study_id, new_id(), jobs[ONE], 60.0, token_id=ONE),
        lambda: thrifty.jobs.put(study_id, jobs[ONE], JobReport(), ONE),
        lambda: thrifty.ledger.take_run(log_of(jobs[ONE]), jobs[ONE], ONE),
    ):
        with pytest.raises(QuotaExceeded):
            call()
    assert "same" == tell(thrifty, study_id, *batch[0]).status
    assert "new" == tell(thrifty, study_id, new_id(), baseline_of(jobs[OTHER], OTHER)).status
    open_batch = [(new_id(), baseline_of(jobs[None], None)) for _ in range(ROWS + 1)]
    assert {"new"} == {stored.status for stored in thrifty.ledger.tell_batch(study_id, open_batch)}

    pass_time(database, HOUR_S)
    assert ["same"] * ROWS + ["new"] == [stored.status for stored in thrifty.ledger.tell_batch(study_id, batch)]


def test_a_token_begins_so_many_jobs(thrifty: Service, database: Database) -> None:
    """In whatever call; a known job goes on, and the quota comes back over the day."""
    study_id = study_of(thrifty).study_id
    known = [new_id() for _ in range(JOBS)]
    thrifty.jobs.put(study_id, known[0], JobReport(), ONE)
    tell(thrifty, study_id, new_id(), baseline_of(known[1], ONE))

    for call in (
        lambda: thrifty.jobs.put(study_id, new_id(), JobReport(), ONE),
        lambda: tell(thrifty, study_id, new_id(), baseline_of(new_id(), ONE)),
        lambda: thrifty.ledger.tell_batch(study_id, [(new_id(), baseline_of(new_id(), ONE))]),
        lambda: thrifty.suggestions.ask(study_id, new_id(), new_id(), 60.0, token_id=ONE),
        lambda: thrifty.ledger.take_run(log_of(new_id()), None, ONE),
    ):
        with pytest.raises(QuotaExceeded, match=f"{JOBS} new jobs"):
            call()
    assert "new" == tell(thrifty, study_id, new_id(), baseline_of(known[0], ONE)).status
    thrifty.jobs.put(study_id, new_id(), JobReport(), OTHER)
    pass_time(database, DAY_S / JOBS)
    thrifty.jobs.put(study_id, new_id(), JobReport(), ONE)


def pass_time(database: Database, seconds: float) -> None:
    """Let the tokens' budgets be older than they are."""
    with database.writing() as connection:
        connection.execute(token_usage.update().values(at_unix_s=token_usage.c.at_unix_s - seconds))


def test_a_token_creates_so_many_studies_in_a_day(narrow: Service) -> None:
    """A token has a daily quota of new studies: known ones are found as before, and deletion gives none back."""
    first = created(narrow, 0, ONE)
    for number in range(1, STUDIES):
        created(narrow, number, ONE)

    with pytest.raises(QuotaExceeded, match=f"created {STUDIES} studies"):
        created(narrow, 9, ONE)
    assert first == created(narrow, 0, ONE)
    narrow.studies.delete(first)
    with pytest.raises(QuotaExceeded):
        created(narrow, 0, ONE)
    created(narrow, 10, OTHER)
    for number in range(20, 20 + STUDIES + 1):
        created(narrow, number, None)
