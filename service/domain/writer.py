# SPDX-License-Identifier: Apache-2.0
"""Group commit: one thread stores the reports of many callers, in few transactions; each is answered after its commit.

While a transaction is on its way to the disk the next results gather, so that groups grow with the load by themselves.
A transaction costs as much as many results do: under load each waits a moment for more.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, field
from typing import TypeAlias

import structlog
from sqlalchemy import Connection
from sqlalchemy.exc import DataError

from ringtune.service.errors import InvalidRequest, Overloaded, ServiceError, ShuttingDown, StoreUnavailable
from ringtune.service.store import Database
from ringtune.service.store.reports import LOCK
from ringtune.shared_service.rest_models import StoredResult

from .submission import Submission

Outcome: TypeAlias = StoredResult | ServiceError
Store: TypeAlias = Callable[[Connection, Sequence[Submission]], list[Outcome]]
OnPoint: TypeAlias = Callable[[str], None]
"""Is told the point that the writer has reached: tests of crashes hook into it."""

POINTS = ("received", "begun", "inserted", "before_commit", "committed", "answered", "closing")
JOIN_S = 30.0
GATHER_S = 0.015
"""Seconds for which a group gathers after one of several; a lone report is stored at once."""


def ignore_point(_point: str) -> None:
    """Do no more."""


@dataclass
class Ticket:
    """The report of one caller, and the place of its outcomes, in the same order."""

    submissions: Sequence[Submission]
    answer: "Future[list[Outcome]]" = field(default_factory=Future)


class GroupWriter:
    """The one thread that writes results. Calls may come from any thread."""

    def __init__(
        self,
        database: Database,
        store: Store,
        *,
        max_queued: int,
        max_group: int,
        timeout_s: float,
        on_point: OnPoint = ignore_point,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            database: The database to write to.
            store: Stores submissions in a transaction and returns an outcome each.
            max_queued: Results that may wait.
            max_group: Results of one transaction; a single call may have more.
            timeout_s: Until a caller is told that the database does not answer.
            on_point: Is told where the writer is.
        """
        self._database = database
        self._store = store
        self._max_queued = max_queued
        self._max_group = max_group
        self._timeout_s = timeout_s
        self._on_point = on_point
        self._queue: deque[Ticket] = deque()
        self._queued = 0
        self._closed = threading.Event()
        self._changed = threading.Condition()  # guards the three above
        self._thread = threading.Thread(target=self._run, name="ringtune-writer", daemon=True)

    @property
    def queued(self) -> int:
        """Return the number of waiting results."""
        return self._queued

    def start(self) -> None:
        """Begin to write."""
        self._thread.start()

    def store(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Store results; returns when they are durable.

        Raises:
            Overloaded: If too many wait already; the report was not stored.
            ShuttingDown: If the writer is closed; the report was not stored.
            StoreUnavailable: If the database does not answer; whether the report was stored is not known.
        """
        try:
            return self._accept(submissions).result(self._timeout_s)
        except FutureTimeout:
            raise self._no_answer() from None

    async def store_async(self, submissions: Sequence[Submission]) -> list[Outcome]:
        """Store results as `store` does, without a thread that waits."""
        answer = asyncio.wrap_future(self._accept(submissions))
        try:
            # Shielded: the thread that writes must find the future as it left it.
            return await asyncio.wait_for(asyncio.shield(answer), self._timeout_s)
        except asyncio.TimeoutError:
            raise self._no_answer() from None

    def close(self) -> None:
        """Finish accepted reports, then end."""
        with self._changed:
            self._closed.set()
            self._changed.notify()
        self._on_point("closing")
        if self._thread.is_alive():
            self._thread.join(JOIN_S)

    def _accept(self, submissions: Sequence[Submission]) -> "Future[list[Outcome]]":
        ticket = Ticket(submissions)
        with self._changed:
            if self._closed.is_set():
                raise ShuttingDown("the service is shutting down; try again when it is back")
            if self._queued + len(submissions) > self._max_queued:
                raise Overloaded(f"{self._queued} results wait to be stored, which is all that may; try again later")
            self._queue.append(ticket)
            self._queued += len(submissions)
            self._changed.notify()
        return ticket.answer

    def _no_answer(self) -> StoreUnavailable:
        return StoreUnavailable(f"the database did not store the result within {self._timeout_s:g} s; report it again")

    def _run(self) -> None:
        while tickets := self._next_group():
            self._on_point("received")
            self._write(tickets)
            self._on_point("answered")
            if len(tickets) > 1:
                self._closed.wait(GATHER_S)

    def _next_group(self) -> list[Ticket]:
        """Return the reports that wait, up to a group; empty when closed and done."""
        with self._changed:
            self._changed.wait_for(lambda: self._queue or self._closed.is_set())
            group: list[Ticket] = []
            size = 0
            while self._queue and (not group or size + len(self._queue[0].submissions) <= self._max_group):
                group.append(self._queue.popleft())
                size += len(group[-1].submissions)
            self._queued -= size
            return group

    def _write(self, tickets: Sequence[Ticket]) -> None:
        try:
            outcomes = self._commit(tickets)
        except ServiceError as error:
            for ticket in tickets:
                ticket.answer.set_exception(error)
        except Exception:  # noqa: BLE001  (whatever one result raises, the thread and the others go on)
            # One of them cannot be stored: each goes alone, so that it fails alone.
            for ticket in tickets:
                self._write_apart(ticket)
        else:
            self._answer(tickets, outcomes)

    def _commit(self, tickets: Sequence[Ticket]) -> list[Outcome]:
        """Store a group in one transaction; it is durable when this returns."""
        with self._database.writing(LOCK) as connection:
            self._on_point("begun")
            outcomes = self._stored(connection, tickets)
            self._on_point("before_commit")
        self._on_point("committed")
        return outcomes

    def _stored(self, connection: Connection, tickets: Sequence[Ticket]) -> list[Outcome]:
        outcomes = self._store(connection, [item for ticket in tickets for item in ticket.submissions])
        self._on_point("inserted")
        return outcomes

    def _answer(self, tickets: Sequence[Ticket], outcomes: Sequence[Outcome]) -> None:
        start = 0
        for ticket in tickets:
            end = start + len(ticket.submissions)
            if not ticket.answer.done():
                ticket.answer.set_result(list(outcomes[start:end]))
            start = end

    def _write_apart(self, ticket: Ticket) -> None:
        outcomes: list[Outcome] = []
        try:
            for submission in ticket.submissions:
                outcomes += self._one(submission)
        except ServiceError as error:
            ticket.answer.set_exception(error)
        else:
            self._answer([ticket], outcomes)

    def _one(self, submission: Submission) -> list[Outcome]:
        try:
            return self._commit([Ticket([submission])])
        except DataError as error:
            reason = str(error.orig).partition("\n")[0][:300]
            return [InvalidRequest(f"the result of trial {submission.trial_id} cannot be stored: {reason}")]
        except ServiceError:
            raise
        except Exception as error:  # noqa: BLE001  (as above)
            structlog.get_logger().error("result_not_stored", trial_id=submission.trial_id, error=repr(error))
            return [ServiceError(f"the result of trial {submission.trial_id} could not be stored; report this bug")]
