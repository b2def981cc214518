# SPDX-License-Identifier: Apache-2.0
"""Group commit: many callers, few transactions, each answered after its own."""

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest
from sqlalchemy import Connection, func, insert, select

from ringtune.service.domain import writer as writer_module
from ringtune.service.domain.submission import Submission
from ringtune.service.domain.writer import GroupWriter, Outcome, Store
from ringtune.service.errors import Overloaded, ServiceError, ShuttingDown, StoreUnavailable
from ringtune.service.store import Database, migrate
from ringtune.service.store.tables import audit
from ringtune.shared_service.rest_models import StoredResult
from tests.unit.service.domain.rows import report_row

LIMIT_S = 20.0
MakeWriter = Callable[..., GroupWriter]


def submission(number: int, suspicion: str | None = None) -> Submission:
    """Return a submission of which the tests' `store` writes the number."""
    return Submission("study", str(number), "job", None, report_row(), suspicion)


def store(connection: Connection, submissions: Sequence[Submission]) -> list[Outcome]:
    """Write a row for each; one that is called bad breaks its transaction."""
    for item in submissions:
        if item.suspicion is not None:
            raise ZeroDivisionError(item.suspicion)
        row = {"happened_unix_s": 0.0, "event": "told", "subject": item.trial_id, "detail": ""}
        connection.execute(insert(audit), [row])
    return [StoredResult(trial_id=item.trial_id, status="new") for item in submissions]


class Gate:
    """Holds the writer at a point until it is opened."""

    def __init__(self, point: str) -> None:
        """Stop at `point`."""
        self.point = point
        self.reached = threading.Event()
        self.opened = threading.Event()
        self.passed: list[str] = []

    def __call__(self, point: str) -> None:
        """Be told a point."""
        self.passed.append(point)
        if point == self.point:
            self.reached.set()
            assert self.opened.wait(LIMIT_S)


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An SQLite database with the schema."""
    opened = Database.open(f"sqlite:///{tmp_path / 'ringtune.db'}")
    migrate(opened)
    yield opened
    opened.close()


@pytest.fixture
def writer_with(database: Database) -> Iterator[MakeWriter]:
    """Makes writers, and closes them."""
    made: list[GroupWriter] = []

    def make(gate: Callable[[str], None] = lambda _: None, *, of: Store = store, **limits: float) -> GroupWriter:
        chosen = {"max_queued": 100, "max_group": 10, "timeout_s": LIMIT_S, **limits}
        writer = GroupWriter(database, of, on_point=gate, **chosen)  # type: ignore[arg-type]
        writer.start()
        made.append(writer)
        return writer

    yield make
    for writer in made:
        writer.close()


def stored_count(database: Database) -> int:
    """Return the number of committed rows."""
    with database.reading() as connection:
        return connection.execute(select(func.count()).select_from(audit)).scalar_one()


def told(pool: ThreadPoolExecutor, writer: GroupWriter, numbers: range) -> "list[Future[list[Outcome]]]":
    """Let a thread each report one result, and return when all wait."""
    answers = [pool.submit(writer.store, [submission(number)]) for number in numbers]
    pause = threading.Event()
    while writer.queued < len(numbers):
        assert not all(answer.done() for answer in answers)
        pause.wait(0.001)
    return answers


def test_no_caller_is_answered_before_the_commit(writer_with: MakeWriter, database: Database) -> None:
    """At the last moment before the commit no caller has an answer and no reader sees a row."""
    gate = Gate("before_commit")
    writer = writer_with(gate)

    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(writer.store, [submission(1)])
        assert gate.reached.wait(LIMIT_S)
        assert not answer.done()
        assert 0 == stored_count(database)
        gate.opened.set()
        assert [StoredResult(trial_id="1", status="new")] == answer.result(LIMIT_S)

    assert 1 == stored_count(database)


def test_reports_during_a_commit_are_one_transaction(writer_with: MakeWriter, database: Database) -> None:
    """Groups grow with the load, up to a limit; each caller gets its own outcome."""
    gate = Gate("begun")
    writer = writer_with(gate)

    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(writer.store, [submission(0)])
        assert gate.reached.wait(LIMIT_S)
        rest = told(pool, writer, range(1, 16))
        gate.opened.set()
        answers = [answer.result(LIMIT_S) for answer in (first, *rest)]

    assert [[StoredResult(trial_id=str(number), status="new")] for number in range(16)] == answers
    assert 3 == gate.passed.count("committed")
    assert 16 == stored_count(database)


def test_after_a_group_of_several_the_next_one_gathers(
    writer_with: MakeWriter, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment, which the end of the writer cuts short."""
    monkeypatch.setattr(writer_module, "GATHER_S", 3600.0)
    gate = Gate("begun")
    writer = writer_with(gate)

    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(writer.store, [submission(0)])
        assert gate.reached.wait(LIMIT_S)
        several = told(pool, writer, range(1, 4))
        gate.opened.set()
        for answer in (first, *several):
            answer.result(LIMIT_S)
        gathered = [*told(pool, writer, range(4, 5)), pool.submit(writer.store, [submission(5)])]
        while writer.queued < len(gathered):
            threading.Event().wait(0.001)
        writer.close()
        for answer in gathered:
            answer.result(LIMIT_S)

    assert 3 == gate.passed.count("committed")
    assert 6 == stored_count(database)


def test_a_bad_result_fails_alone(writer_with: MakeWriter, database: Database) -> None:
    """The bad result's neighbours in the transaction and in its own batch are stored, and the writer goes on."""
    gate = Gate("begun")
    writer = writer_with(gate)

    with ThreadPoolExecutor(16) as pool:
        first = pool.submit(writer.store, [submission(0)])
        assert gate.reached.wait(LIMIT_S)
        good = told(pool, writer, range(1, 4))
        mixed = pool.submit(writer.store, [submission(4), submission(5, "bad"), submission(6)])
        gate.opened.set()
        outcomes = [answer.result(LIMIT_S) for answer in (first, *good, mixed)]

    assert ["new"] * 4 == [outcome[0].status for outcome in outcomes[:4] if isinstance(outcome[0], StoredResult)]
    assert [StoredResult, ServiceError, StoredResult] == [type(item) for item in outcomes[4]]
    assert 6 == stored_count(database)
    assert [StoredResult(trial_id="7", status="new")] == writer.store([submission(7)])


def test_a_full_queue_is_said_at_once(writer_with: MakeWriter, database: Database) -> None:
    """No refused result is stored; every accepted one is."""
    gate = Gate("begun")
    writer = writer_with(gate, max_queued=3)

    with ThreadPoolExecutor(4) as pool:
        first = pool.submit(writer.store, [submission(0)])
        assert gate.reached.wait(LIMIT_S)
        accepted = told(pool, writer, range(1, 4))
        with pytest.raises(Overloaded) as refusal:
            writer.store([submission(9)])
        gate.opened.set()
        assert all(answer.result(LIMIT_S) for answer in (first, *accepted))

    assert refusal.value.retry_after_s
    assert 4 == stored_count(database)


def test_closing_finishes_accepted_reports(writer_with: MakeWriter, database: Database) -> None:
    """Accepted results are stored, and no more are taken."""
    gate = Gate("begun")
    writer = writer_with(gate)

    with ThreadPoolExecutor(6) as pool:
        first = pool.submit(writer.store, [submission(0)])
        assert gate.reached.wait(LIMIT_S)
        accepted = told(pool, writer, range(1, 5))
        closing = pool.submit(writer.close)
        gate.opened.set()
        closing.result(LIMIT_S)
        assert all(answer.result(LIMIT_S) for answer in (first, *accepted))

    assert 5 == stored_count(database)
    with pytest.raises(ShuttingDown):
        writer.store([submission(9)])


def test_a_caller_does_not_wait_for_ever(writer_with: MakeWriter) -> None:
    """When the database hangs the caller is told to report again."""
    gate = Gate("begun")
    writer = writer_with(gate, timeout_s=0.01)

    with pytest.raises(StoreUnavailable, match="again"):
        writer.store([submission(0)])

    gate.opened.set()


def test_a_coroutine_waits_no_longer_than_a_thread(writer_with: MakeWriter, database: Database) -> None:
    """A coroutine that gives up leaves the writer alone: accepted results and later ones are stored."""
    gate = Gate("begun")
    writer = writer_with(gate, timeout_s=0.01)

    with pytest.raises(StoreUnavailable, match="again"):
        asyncio.run(writer.store_async([submission(0)]))
    gate.opened.set()
    patient = writer_with()

    assert [StoredResult(trial_id="1", status="new")] == asyncio.run(patient.store_async([submission(1)]))
    writer.close()
    assert 2 == stored_count(database)


def test_many_coroutines_share_a_commit(writer_with: MakeWriter) -> None:
    """Coroutines share a commit as threads do, and each gets its own outcome."""
    gate = Gate("begun")
    writer = writer_with(gate)

    async def scenario() -> list[list[Outcome]]:
        first = asyncio.ensure_future(writer.store_async([submission(0)]))
        await asyncio.to_thread(gate.reached.wait, LIMIT_S)
        rest = [asyncio.ensure_future(writer.store_async([submission(number)])) for number in range(1, 6)]
        await asyncio.sleep(0)
        gate.opened.set()
        return await asyncio.gather(first, *rest)

    assert [[StoredResult(trial_id=str(number), status="new")] for number in range(6)] == asyncio.run(scenario())
    assert 2 == gate.passed.count("committed")


def test_when_the_database_is_away_all_of_the_group_are_told(writer_with: MakeWriter, database: Database) -> None:
    """The whole group gets the same error, and the next group is tried anew."""
    fails = [True]

    def away_once(connection: Connection, submissions: Sequence[Submission]) -> list[Outcome]:
        if fails.pop() if fails else False:
            raise StoreUnavailable("the database does not answer")
        return store(connection, submissions)

    writer = writer_with(of=away_once)

    with pytest.raises(StoreUnavailable):
        writer.store([submission(0)])

    assert [StoredResult(trial_id="1", status="new")] == writer.store([submission(1)])
    assert 1 == stored_count(database)
