# SPDX-License-Identifier: Apache-2.0
"""One token may hold so many leases, and create so many studies in a day, on both databases."""

import pytest

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain.suggestions import HeldLease
from ringtune.service.domain.values import ComparisonKey
from ringtune.service.errors import QuotaExceeded
from ringtune.service.store import Database
from ringtune.tuner import ENGINE_PARAMETERS, SearchSpace
from tests.unit.service.domain.reported import new_id, study_of

LEASES, STUDIES = 3, 2
ONE, OTHER = "0" * 16, "1" * 16


@pytest.fixture
def narrow(database: Database) -> Service:
    """A service with small quotas."""
    return Service(database, policy=ServiceLimits(max_leases_per_token=LEASES, max_new_studies_per_token=STUDIES))


def created(service: Service, number: int, token_id: str | None) -> str:
    """Create a study of another model with a token and return its id."""
    key = ComparisonKey("a" * 64, f"{number:064x}", (2,), "ringtune", 1)
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
