# SPDX-License-Identifier: Apache-2.0
"""Delivery of queued results to the service: in batches, in order, each until the service has acknowledged it.

A payload is `{"study": ..., "result": ..., "job": ...}`, the study as `POST /v1/studies` takes it. Each names its own
study, so that a damaged payload costs itself alone. A payload without a result announces the study, or has the job's
name and state. A payload that is sent twice is stored once, for results and jobs have ids.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Protocol

from ringtune.client.errors import ServiceRefusedError
from ringtune.rest_models import StoredBatch, Study

from .spool import Pending

Json = Mapping[str, Any]

BATCH = 100
NO_SUCH_CALL = 404
FINAL_STATUSES = (400, 409, 413, 422)
"""HTTP statuses of final refusals; the cause of any other can be mended: a token, a URL, a deleted study."""


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
        reason: The newest reason for either.
    """

    kept: int = 0
    quarantined: int = 0
    refused: int = 0
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

    def deliver(self, queue: Pending) -> None:
        """Send all pending payloads.

        Raises:
            StoreError: If the service is away, or refuses; the rest stays in the queue.
            OSError: If the queue cannot be read or emptied.
        """
        for payloads in _batches(queue.pending()):
            study, results, jobs = _contents(payloads)
            if study:
                self._send(study, results)
            for facts in jobs:
                self._put_job(study, facts)
            queue.delivered(len(payloads))

    def _send(self, study: str, results: Sequence[Json]) -> None:
        """Send some results of a study; those that the service will never take are counted."""
        try:
            study_id = self._study_id(study)
        except ServiceRefusedError as error:
            if error.status not in FINAL_STATUSES:
                raise
            self._count_refused(len(results), error)
            return
        try:
            stored = self.client.tell_batch(study_id, results) if results else StoredBatch(items=[])
        except ServiceRefusedError as error:
            self._study_ids.pop(study, None)  # it may have been deleted: the next attempt finds or makes it anew
            if error.status not in FINAL_STATUSES:
                raise
            self._refused(study, results, error)
            return
        for item in stored.items:
            if item.status in {"conflict", "refused"}:
                self.tally.refused += 1
            else:
                self.tally.kept += 1
                self.tally.quarantined += item.status == "quarantined"
            self.tally.reason = item.reason or self.tally.reason

    def _put_job(self, study: str, facts: Json) -> None:
        """Send the facts of a job; a service without that call knows the job by its results alone."""
        if study not in self._study_ids:  # the study itself was refused, which was counted
            return
        try:
            self.client.put_job(self._study_ids[study], facts)
        except ServiceRefusedError as error:
            if error.status not in (*FINAL_STATUSES, NO_SUCH_CALL):
                raise

    def _refused(self, study: str, results: Sequence[Json], error: ServiceRefusedError) -> None:
        """Try the halves of a batch that was refused as a whole, so that one bad result costs itself alone."""
        if len(results) <= 1:
            self._count_refused(len(results), error)
            return
        middle = len(results) // 2
        self._send(study, results[:middle])
        self._send(study, results[middle:])

    def _count_refused(self, count: int, error: ServiceRefusedError) -> None:
        self.tally.refused += count
        self.tally.reason = str(error)

    def _study_id(self, study: str) -> str:
        if study not in self._study_ids:
            self._study_ids[study] = self.client.find_or_create_study(json.loads(study)).id
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


def _contents(payloads: Sequence[bytes]) -> tuple[str, list[Json], list[Json]]:
    """Return the study that payloads belong to, their results, and the newest facts of each job.

    The study is empty where they are not ours.
    """
    study = _study_of(payloads[0])
    contents = [json.loads(payload) for payload in payloads] if study else []
    jobs = {item["job"].get("job_id"): item["job"] for item in contents if item.get("job") is not None}
    return study, [item["result"] for item in contents if item["result"] is not None], list(jobs.values())


def _canonical(value: object) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
