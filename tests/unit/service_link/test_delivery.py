# SPDX-License-Identifier: Apache-2.0
"""Refusals during delivery: one call more if it can save results, none otherwise."""

from collections.abc import Sequence
from typing import Any

import pytest

from ringtune.client import ServiceRefusedError, StoredBatch, StoredResult, Study
from ringtune.service_link.delivery import BATCH, Delivery, payload_of
from ringtune.service_link.spool import MemoryQueue
from tests.integration.service_link.servers import study_reply

KEY = {"hardware": "ab" * 32, "model": "cd" * 32, "layout": [2], "target": "ringtune", "surface_version": 1}
STUDY: dict[str, Any] = {"key": KEY, "search_space": {}}


class Refusing:
    """A service that says no to a study, or to results; counts its calls."""

    def __init__(self, study: int | None = None, results: int | None = None, bad: Sequence[str] = ()) -> None:
        """Answer the study, or batches with one of the bad trials, with a status."""
        self.calls = 0
        self.kept: list[str] = []
        self.jobs: list[tuple[str, Any]] = []
        self.job_status: int | None = None
        self._study, self._results, self._bad = study, results, frozenset(bad)

    def find_or_create_study(self, study: Any) -> Study:
        """Answer, or refuse."""
        self.calls += 1
        if self._study is not None:
            raise ServiceRefusedError("no such study", status=self._study)
        return Study(**{**study_reply(study), "id": "0" * 32})

    def tell_batch(self, study_id: str, results: Sequence[Any]) -> StoredBatch:
        """Keep all, or refuse."""
        del study_id
        self.calls += 1
        ids = [result["trial_id"] for result in results]
        if self._results is not None and self._bad & set(ids):
            raise ServiceRefusedError("no such result", status=self._results)
        self.kept += ids
        return StoredBatch(items=[StoredResult(trial_id=trial_id, status="new") for trial_id in ids])

    def put_job(self, study_id: str, facts: Any) -> None:
        """Keep a job's report, or refuse."""
        if self.job_status is not None:
            raise ServiceRefusedError("no such call", status=self.job_status)
        self.jobs.append((study_id, facts))


def queue_of(count: int) -> MemoryQueue:
    """Return a queue that announces a study and has results of it."""
    queue = MemoryQueue()
    for result in (None, *({"trial_id": f"t{number}"} for number in range(count))):
        queue.append(payload_of(STUDY, result))
    return queue


def test_a_study_that_is_refused_for_good_is_not_asked_for_again_and_again() -> None:
    """A refused study's results are counted as refused, a batch with one call."""
    service, queue = Refusing(study=422), queue_of(2 * BATCH - 1)
    delivery = Delivery(service)

    delivery.deliver(queue)

    assert (2, 2 * BATCH - 1) == (service.calls, delivery.tally.refused)
    assert "no such study" == delivery.tally.reason
    assert [] == queue.pending()


def test_a_bad_result_costs_itself_alone() -> None:
    """Halves are tried until it is found."""
    service = Refusing(results=422, bad=["t7"])
    delivery = Delivery(service)

    delivery.deliver(queue_of(20))

    assert (19, 1) == (delivery.tally.kept, delivery.tally.refused)
    assert [f"t{number}" for number in range(20) if number != 7] == service.kept


@pytest.mark.parametrize("status", [401, 403, 404])
@pytest.mark.parametrize("count", [1, 20])
def test_what_may_be_mended_stays_in_the_queue(status: int, count: int) -> None:
    """A token, a URL, a deleted study: nothing is counted, and all of it is there for the next attempt."""
    for service in (Refusing(study=status), Refusing(results=status, bad=["t0"])):
        queue, delivery = queue_of(count), Delivery(service)

        with pytest.raises(ServiceRefusedError):
            delivery.deliver(queue)

        assert count + 1 == len(queue.pending())
        assert 0 == delivery.tally.refused + delivery.tally.kept


def told_of_a_job() -> MemoryQueue:
    """Return a queue in which a job says that it runs, reports, and says what it decided."""
    queue = MemoryQueue()
    queue.append(payload_of(STUDY, None, {"job_id": "j", "state": "running"}))
    queue.append(payload_of(STUDY, {"trial_id": "t0"}))
    queue.append(payload_of(STUDY, None, {"job_id": "j", "state": "adopted"}))
    return queue


def test_a_job_s_last_word_goes_after_its_results() -> None:
    """Earlier words of the same delivery are not sent: they say less."""
    service = Refusing()

    Delivery(service).deliver(told_of_a_job())

    assert ["t0"] == service.kept
    assert [("0" * 32, {"job_id": "j", "state": "adopted"})] == service.jobs


@pytest.mark.parametrize("status", [404, 409, 422])
def test_a_service_that_takes_no_words_of_jobs_takes_their_results(status: int) -> None:
    """An older one does not know the call; nothing is counted as refused."""
    service, queue = Refusing(), told_of_a_job()
    service.job_status = status
    delivery = Delivery(service)

    delivery.deliver(queue)

    assert (1, 0, []) == (delivery.tally.kept, delivery.tally.refused, queue.pending())


def test_what_a_job_says_waits_for_a_token() -> None:
    """A job's reports wait for a token as its results do."""
    service, queue = Refusing(), told_of_a_job()
    service.job_status = 401

    with pytest.raises(ServiceRefusedError):
        Delivery(service).deliver(queue)

    assert 3 == len(queue.pending())
