# SPDX-License-Identifier: Apache-2.0
"""Refusals during delivery: one call more if it can save results, none otherwise."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ringtune.client import ServiceRefusedError, StoredBatch, StoredResult, Study
from ringtune.tuning.service_link.delivery import BATCH, Delivery, payload_of
from ringtune.tuning.service_link.spool import MemoryQueue, Spool
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
        self.code = "invalid_request"
        self.outcomes: dict[str, tuple[str, str | None]] = {}
        self.page: dict[str, str | None] = {}
        self._study, self._results, self._bad = study, results, frozenset(bad)

    def find_or_create_study(self, study: Any) -> Study:
        """Answer, or refuse."""
        self.calls += 1
        if self._study is not None:
            raise ServiceRefusedError("no such study", status=self._study, code=self.code)
        return Study(**{**study_reply(study), "id": "0" * 32, **self.page})

    def tell_batch(self, study_id: str, results: Sequence[Any]) -> StoredBatch:
        """Keep all, or refuse."""
        del study_id
        self.calls += 1
        ids = [result["trial_id"] for result in results]
        if self._results is not None and self._bad & set(ids):
            raise ServiceRefusedError("no such result", status=self._results, code=self.code)
        outcomes = {trial_id: self.outcomes.get(trial_id, ("new", None)) for trial_id in ids}
        self.kept += [trial_id for trial_id, (status, _) in outcomes.items() if status == "new"]
        return StoredBatch(
            items=[StoredResult(trial_id=name, status=status, code=code) for name, (status, code) in outcomes.items()]
        )

    def put_job(self, study_id: str, facts: Any) -> None:
        """Keep a job's report, or refuse."""
        if self.job_status is not None:
            raise ServiceRefusedError("no such call", status=self.job_status, code=self.code)
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
    """A token, a URL, a deleted study: no result is counted, and all are there for the next attempt."""
    for service in (Refusing(study=status), Refusing(results=status, bad=["t0"])):
        queue, delivery = queue_of(count), Delivery(service)

        with pytest.raises(ServiceRefusedError):
            delivery.deliver(queue)

        assert count + 1 == len(queue.pending())
        assert 0 == delivery.tally.refused + delivery.tally.kept


@pytest.mark.parametrize("page", [{"page": "/studies/0"}, {"page": None}, {}])
def test_a_page_is_known_once_the_study_is_acknowledged(page: dict[str, str | None]) -> None:
    """A service names the study's page in its reply; one without pages, or an older one, names none."""
    service = Refusing()
    service.page = page
    delivery = Delivery(service)
    before = delivery.page_of(STUDY)

    delivery.deliver(queue_of(1))

    assert (None, page.get("page")) == (before, delivery.page_of(STUDY))


def test_a_refused_study_has_no_page() -> None:
    """The service does not have that study."""
    delivery = Delivery(Refusing(study=422))

    delivery.deliver(queue_of(1))

    assert delivery.page_of(STUDY) is None


def told_of_a_job() -> MemoryQueue:
    """Return a queue in which a job says that it runs, reports, and sends its decision."""
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
    """An older one does not know the call; no report is counted as refused."""
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


class OfAnotherVersion(Refusing):
    """A service that does not know the knobs of one study, and knows those of others."""

    def __init__(self, unknown: dict[str, Any]) -> None:
        """Refuse the study `unknown`."""
        super().__init__()
        self._unknown = unknown

    def find_or_create_study(self, study: Any) -> Study:
        """Refuse one study as a service does that lacks a knob."""
        if study == self._unknown:
            self.calls += 1
            raise ServiceRefusedError("the parameters are a, b", status=422, code="outside_search_space")
        return super().find_or_create_study(study)


def test_what_a_service_of_another_version_does_not_know_waits_for_it(tmp_path: Path) -> None:
    """Such a study costs one question, holds up no other, and is delivered by a job that finds a newer service."""
    spool, later = Spool(tmp_path, "http://127.0.0.1:1"), {**STUDY, "search_space": {"later": 1}}
    file = spool.open("job")
    for study, name in ((later, "l0"), (STUDY, "t0"), (later, "l1"), (STUDY, "t1"), (STUDY, "t2"), (STUDY, "t3")):
        file.append(payload_of(study, {"trial_id": name}))
    file.append(payload_of(later, None, {"job_id": "j", "state": "adopted"}))
    old, new = OfAnotherVersion(later), Refusing()
    delivery = Delivery(old)

    delivery.deliver(file)
    file.append(payload_of(later, {"trial_id": "l2"}))
    delivery.deliver(file)
    file.close()

    assert ["t0", "t1", "t2", "t3"] == old.kept
    assert (4, 0, 3) == (delivery.tally.kept, delivery.tally.refused, delivery.tally.held_back)
    assert 1 == old.calls - len({"a study", "t0", "t1 to t3"})
    for left in spool.left_behind():
        Delivery(new).deliver(left)
    assert ["l0", "l1", "l2"] == [trial for trial in new.kept if trial.startswith("l")]
    assert [("0" * 32, {"job_id": "j", "state": "adopted"})] == new.jobs
    assert [] == list(spool.folder.iterdir())


@pytest.mark.parametrize("code", ["outside_search_space", "malformed_request", "a_later_code", ""])
def test_a_result_with_what_a_service_does_not_know_waits_alone(code: str, tmp_path: Path) -> None:
    """A field or a value of a later version costs no other result, and is all that stays in the file."""
    spool, service = Spool(tmp_path, "http://127.0.0.1:1"), Refusing(results=422, bad=["t7"])
    service.code = code
    file = spool.open("job")
    for number in range(20):
        file.append(payload_of(STUDY, {"trial_id": f"t{number}"}))
    delivery = Delivery(service)

    delivery.deliver(file)
    file.close()

    assert (19, 0, 1) == (delivery.tally.kept, delivery.tally.refused, delivery.tally.held_back)
    assert [[payload_of(STUDY, {"trial_id": "t7"})]] == [left.pending() for left in spool.left_behind()]


@pytest.mark.parametrize("code", ["implausible_result", "invalid_request"])
def test_a_result_that_no_version_takes_is_counted_as_refused(code: str) -> None:
    """Numbers that cannot be true are no better at a newer service."""
    service, queue = Refusing(results=422, bad=["t0"]), queue_of(1)
    service.code = code
    delivery = Delivery(service)

    delivery.deliver(queue)

    assert (1, 0, []) == (delivery.tally.refused, delivery.tally.held_back, queue.pending())


def test_a_refusal_within_a_batch_follows_the_same_rule(tmp_path: Path) -> None:
    """One result of a batch is refused for good by a final code alone; an older service gives none."""
    spool, old, new = Spool(tmp_path, "http://127.0.0.1:1"), Refusing(), Refusing()
    old.outcomes = {
        "t1": ("refused", "outside_search_space"),
        "t2": ("refused", "implausible_result"),
        "t3": ("refused", None),
        "t4": ("conflict", None),
        "t5": ("a later status", None),
        "t6": ("conflict", "trial_conflict"),
    }
    file = spool.open("job")
    for number in range(8):
        file.append(payload_of(STUDY, {"trial_id": f"t{number}"}))
    delivery = Delivery(old)

    delivery.deliver(file)
    file.close()

    assert ["t0", "t7"] == old.kept
    assert (2, 3, 3) == (delivery.tally.kept, delivery.tally.refused, delivery.tally.held_back)
    for left in spool.left_behind():
        Delivery(new).deliver(left)
    assert ["t1", "t3", "t5"] == new.kept
    assert [] == list(spool.folder.iterdir())


def test_facts_that_a_service_does_not_know_wait(tmp_path: Path) -> None:
    """A field of a later version in a job's status stays; its results are delivered."""
    spool, service = Spool(tmp_path, "http://127.0.0.1:1"), Refusing()
    service.job_status, service.code = 422, "malformed_request"
    file = spool.open("job")
    for payload in told_of_a_job().pending():
        file.append(payload)

    Delivery(service).deliver(file)
    file.close()

    assert ["t0"] == service.kept
    new = Refusing()
    for left in spool.left_behind():
        Delivery(new).deliver(left)
    assert [("0" * 32, {"job_id": "j", "state": "adopted"})] == new.jobs
