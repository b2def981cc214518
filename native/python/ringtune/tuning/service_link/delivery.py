# SPDX-License-Identifier: Apache-2.0
"""Delivery of queued results to the service: in batches, in order, each until the service has acknowledged it.

A payload is `{"study": ..., "result": ..., "job": ...}`, the study as `POST /v1/studies` takes it. Each names its own
study, so that a damaged payload costs itself alone. A payload without a result announces the study, or has the job's
name and state. A payload that is sent twice is stored once, for results and jobs have ids.

A service of another version may not know a part of a payload: a knob, a field. A refusal is therefore final only by a
code that says so, for a call as for one result of a batch. Any other payload that is refused is kept, and does not hold
up the others: the service may be upgraded, and a later job tries again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from ringtune.client.errors import ServiceRefusedError
from ringtune.shared_service.rest_models import StoredBatch, StoredResult, Study

from .spool import Pending

Json = Mapping[str, Any]

BATCH = 100
NO_SUCH_CALL = 404
REFUSALS = (400, 409, 413, 422)
"""HTTP statuses that refuse the contents; the cause of any other can be mended: a token, a URL, a deleted study."""
FINAL_CODES = ("implausible_result", "invalid_request", "result_conflict", "trial_conflict", "job_conflict", "conflict")
"""Codes of refusals that are the same at a service of any version. Others are not: `outside_search_space` and
`malformed_request` mean a knob, a range or a field that it does not know, an unknown code may mean that as well."""
KEPT = ("new", "same", "late", "quarantined")
"""Statuses of results in a batch that are durable."""
CONFLICT = "conflict"
"""Status of a result in a batch that contradicts a stored one; services before the `code` of an item say it, too."""


class Client(Protocol):
    """The part of `ServiceClient` that is used."""

    def find_or_create_study(self, study: Json) -> Study:
        """See `ServiceClient`."""

    def tell_batch(self, study_id: str, results: Sequence[Json]) -> StoredBatch:
        """See `ServiceClient`."""

    def put_job(self, study_id: str, facts: Json) -> None:
        """See `ServiceClient`."""


@dataclass
class DeliveryTally:
    """Counts of the results by outcome.

    Attributes:
        kept: Results that are durable.
        quarantined: Results among them that the service does not use.
        refused: Results that it will never take.
        held_back: Results that stay in the queue, for a service of another version.
        reason: The newest reason for any of these.
    """

    kept: int = 0
    quarantined: int = 0
    refused: int = 0
    held_back: int = 0
    reason: str = ""


@dataclass
class Delivery:
    """Delivers queues to one service; used from one thread.

    Attributes:
        client: Reaches the service.
        tally: Counts of the delivered results.
    """

    client: Client
    tally: DeliveryTally = field(default_factory=DeliveryTally)
    _study_ids: dict[str, str] = field(default_factory=dict)
    _pages: dict[str, str | None] = field(default_factory=dict)
    _unknown_studies: dict[str, ServiceRefusedError] = field(default_factory=dict)

    def deliver(self, queue: Pending) -> None:
        """Send all pending payloads; those that a service of another version may take stay in the queue's file.

        Raises:
            StoreError: If the service is away, or refuses; the rest stays in the queue.
            OSError: If the queue cannot be read or emptied.
        """
        for payloads in _batches(queue.pending()):
            held_back = self._send(payloads)
            for is_held_back, group in groupby(payloads, key=held_back.__contains__):
                settle = queue.hold_back if is_held_back else queue.delivered
                settle(len(list(group)))

    def page_of(self, study: Json) -> str | None:
        """Return the path of a study's page, as the service named it; None before, and where it has no pages."""
        return self._pages.get(_canonical(study))

    def _send(self, payloads: Sequence[bytes]) -> set[bytes]:
        """Send the payloads of one study; return those that are held back."""
        study = _study_of(payloads[0])
        if not study:
            return set()
        results, jobs = _contents(payloads)
        try:
            study_id = self._study_id(study)
        except ServiceRefusedError as error:
            if error.status not in REFUSALS:
                raise
            if self._is_held_back(error.code, str(error), len(results)):
                self._unknown_studies[study] = error
                return set(payloads)
            return set()
        held_back = self._tell(study, study_id, list(results))
        unknown = {str(facts.get("job_id")) for facts in jobs if self._is_job_unknown(study_id, facts)}
        return {results[result] for result in held_back} | {item for item in payloads if _job_of(item) in unknown}

    def _tell(self, study: str, study_id: str, results: Sequence[str]) -> list[str]:
        """Send some results of a study; return those that are held back, and count those never taken."""
        if not results:
            return []
        try:
            stored = self.client.tell_batch(study_id, [json.loads(result) for result in results])
        except ServiceRefusedError as error:
            self._study_ids.pop(study, None)  # it may have been deleted: the next attempt finds or makes it anew
            if error.status not in REFUSALS:
                raise
            return self._tell_halves(study, study_id, results, error)
        return [result for result, item in zip(results, stored.items, strict=True) if not self._is_settled(item)]

    def _is_settled(self, item: StoredResult) -> bool:
        """Count one result of a batch; return whether no later job has to send it."""
        if item.status not in KEPT:
            code = CONFLICT if item.status == CONFLICT else item.code or ""
            return not self._is_held_back(code, item.reason or f"it answered {item.status!r}", 1)
        self.tally.kept += 1
        self.tally.quarantined += item.status == "quarantined"
        self.tally.reason = item.reason or self.tally.reason
        return True

    def _tell_halves(self, study: str, study_id: str, results: Sequence[str], error: ServiceRefusedError) -> list[str]:
        """Try the halves of a batch that was refused as a whole, so that one bad result costs itself alone."""
        if len(results) > 1:
            middle = len(results) // 2
            halves = (results[:middle], results[middle:])
            return [result for half in halves for result in self._tell(study, study_id, half)]
        return list(results) if self._is_held_back(error.code, str(error), 1) else []

    def _is_job_unknown(self, study_id: str, facts: Json) -> bool:
        """Send the facts of a job; return whether a service of another version may take them.

        A service without that call knows the job by its results alone.
        """
        try:
            self.client.put_job(study_id, facts)
        except ServiceRefusedError as error:
            if error.status not in (*REFUSALS, NO_SUCH_CALL):
                raise
            return error.status != NO_SUCH_CALL and error.code not in FINAL_CODES
        return False

    def _is_held_back(self, code: str, reason: str, count: int) -> bool:
        """Count results that were refused; return whether a service of another version may take them."""
        self.tally.reason = reason
        if code in FINAL_CODES:
            self.tally.refused += count
            return False
        self.tally.held_back += count
        return True

    def _study_id(self, study: str) -> str:
        if study in self._unknown_studies:  # one question is enough: the answer is that of the service's version
            raise self._unknown_studies[study]
        if study not in self._study_ids:
            known = self.client.find_or_create_study(json.loads(study))
            self._study_ids[study], self._pages[study] = known.id, known.page
        return self._study_ids[study]


def payload_of(study: Json, result: Json | None, job: Json | None = None) -> bytes:
    """Return the payload that carries a result or a job's facts, or announces a study."""
    carried = {"study": study, "result": result}
    return _canonical(carried if job is None else {**carried, "job": job}).encode()


def _batches(payloads: Sequence[bytes]) -> Iterator[list[bytes]]:
    """Yield payloads that follow one another and belong to one study, `BATCH` at most at a time."""
    for _, group in groupby(payloads, key=_study_of):
        members = list(group)
        for start in range(0, len(members), BATCH):
            yield members[start : start + BATCH]


def _study_of(payload: bytes) -> str:
    """Return the study of a payload as text; empty where the payload is not ours."""
    try:
        data = json.loads(payload)
        carried = data["result"], data.get("job")
        is_ours = isinstance(data["study"], dict) and all(isinstance(item, dict | None) for item in carried)
        return _canonical(data["study"]) if is_ours else ""
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""


def _contents(payloads: Sequence[bytes]) -> tuple[dict[str, bytes], list[Json]]:
    """Return the results of one study's payloads, as JSON, with the payload of each, and each job's newest facts."""
    results: dict[str, bytes] = {}
    jobs: dict[object, Json] = {}
    for payload in payloads:
        item = json.loads(payload)
        if item["result"] is not None:
            results[_canonical(item["result"])] = payload
        if item.get("job") is not None:
            jobs[item["job"].get("job_id")] = item["job"]
    return results, list(jobs.values())


def _job_of(payload: bytes) -> str | None:
    """Return the job whose facts a payload has; None if it has none."""
    facts = json.loads(payload).get("job")
    return None if facts is None else str(facts.get("job_id"))


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
