# SPDX-License-Identifier: Apache-2.0
"""The database's connections: accepted URLs, durable commits, and a caller's errors."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Select, select, text
from sqlalchemy.exc import IntegrityError

from ringtune.service.errors import InvalidRequest, Overloaded, StoreUnavailable
from ringtune.service.store import Database, audit, key_verdicts, leases, migrate, verdict_gains
from ringtune.service.store import database as module
from ringtune.service.store.clock import now_unix_s
from ringtune.service.store.rows import NewQueuedSuggestion
from ringtune.service.store.tables import audit as audit_table

STRUCTURE = ("CO-ROUTINE", "COMPOUND", "CORRELATED", "LEFT-MOST", "UNION ALL")
"""Steps of a plan that read no rows by themselves."""


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    """An SQLite database with the schema."""
    opened = Database.open(f"sqlite:///{tmp_path / 'ringtune.db'}")
    migrate(opened)
    yield opened
    opened.close()


@pytest.mark.parametrize(
    "url", ["", "nonsense", "mysql://host/name", "sqlite://", "sqlite:///:memory:", "postgresql+psycopg2://h/n"]
)
def test_other_databases_are_refused(url: str) -> None:
    """Only a file of SQLite or a PostgreSQL keep acknowledged results."""
    with pytest.raises(InvalidRequest):
        Database.open(url)


def test_a_url_that_cannot_be_read_is_not_repeated() -> None:
    """A URL that cannot be read may have a password in it."""
    with pytest.raises(InvalidRequest) as refused:
        Database.open("postgresql://user:secret@host:54x2/name")

    assert "secret" not in str(refused.value)
    assert refused.value.__suppress_context__


def test_commits_are_synced_and_keys_are_kept(database: Database) -> None:
    """Each connection has the write-ahead log, a sync at every commit, and foreign keys."""
    with database.looking() as connection:
        settings = [connection.execute(text(f"PRAGMA {name}")).scalar_one() for name in ("journal_mode", "synchronous")]
        keys = connection.execute(text("PRAGMA foreign_keys")).scalar_one()

    full = 2
    assert ["wal", full] == settings
    assert 1 == keys
    row = NewQueuedSuggestion(study_id="none", space_digest="", config="{}", config_digest="d", designer="gp")
    with pytest.raises(IntegrityError), database.writing() as connection:
        leases.enqueue(connection, [row])


def test_a_transaction_that_fails_leaves_no_row(database: Database) -> None:
    """A failed transaction's writes are gone, and the next one works."""

    def fail() -> None:
        with database.writing() as connection:
            audit.record(connection, "token_created", "a", {})
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    with database.writing() as connection:
        audit.record(connection, "token_created", "b", {})

    with database.reading() as connection:
        assert ["b"] == connection.execute(select(audit_table.c.subject)).scalars().all()


def test_a_reader_sees_one_moment(database: Database) -> None:
    """A reader does not see writes that come while it reads."""
    with database.reading() as reader:
        assert 0 == len(audit.newest(reader, 10))
        with database.writing() as writer:
            audit.record(writer, "token_created", "a", {})
        assert 0 == len(audit.newest(reader, 10))

    with database.reading() as reader:
        assert 1 == len(audit.newest(reader, 10))


def test_writers_take_turns(database: Database) -> None:
    """Many threads write at once, and none is told that the database is locked."""

    def write(number: int) -> None:
        with database.writing() as connection:
            audit.record(connection, "token_created", str(number), {})

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(write, range(64)))

    with database.reading() as connection:
        assert 64 == len(audit.newest(connection, 100))


def test_connections_are_few_and_waiting_ends(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """When all are in use a caller is told to come again; afterwards there is room."""
    monkeypatch.setattr(database.engine.pool, "_timeout", 0.01)
    with ExitStack() as stack:
        for _ in range(module.MAX_CONNECTIONS):
            stack.enter_context(database.looking())
        assert module.MAX_CONNECTIONS == database.connections_in_use()

        with pytest.raises(Overloaded) as refusal, database.looking():
            pass

    assert refusal.value.retry_after_s
    assert 0 == database.connections_in_use()


def test_a_database_that_is_away_is_said_so(tmp_path: Path) -> None:
    """A folder that is not there, or a server that does not answer."""
    for url in (f"sqlite:///{tmp_path / 'none' / 'a.db'}", f"postgresql://u@/n?host={tmp_path}&connect_timeout=1"):
        database = Database.open(url)
        with pytest.raises(StoreUnavailable), database.looking():
            pass
        database.close()


def test_a_file_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """The folder is missing: another attempt would not help, so the message names the file and the reason."""
    path = tmp_path / "nowhere" / "s.db"
    database = Database.open(f"sqlite:///{path}")

    with pytest.raises(StoreUnavailable, match="No such file or directory") as refused:
        database.create_file()

    assert str(path) in str(refused.value)
    assert not path.parent.exists()


def test_the_databases_clock_has_fractions_and_goes_on(database: Database) -> None:
    """Seconds since 1970, finer than a hundredth."""
    with database.looking() as connection:
        times = [now_unix_s(connection) for _ in range(200)]

    assert times == sorted(times)
    assert any(time % 1.0 for time in times)
    assert 1.7e9 < times[0] < 5e9


def plan_of(database: Database, query: Select[Any]) -> list[str]:
    """Return SQLite's plan of a query, but for its work on the rows that a limit has left."""
    with database.looking() as connection:
        bound = query.params(study_id="s", config_digest="d", most=1)
        compiled = bound.compile(database.engine, compile_kwargs={"literal_binds": True})
        plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}").mappings().all()
    of_limited = {row["parent"] for row in plan if row["detail"].startswith("SCAN anon_")}
    steps = [row["detail"] for row in plan if not ("TEMP B-TREE" in row["detail"] and row["parent"] in of_limited)]
    return [step for step in steps if not step.startswith(("SCAN anon_", *STRUCTURE))]


@pytest.mark.parametrize("name", ["ADOPTED_OF", "UNTESTED_OF", "ADOPTERS_OF", "SAID", "TESTED"])
def test_a_recommendation_reads_indexes_alone(database: Database, name: str) -> None:
    """However many results and jobs there are: the queries behind it scan and sort no table."""
    steps = plan_of(database, getattr(key_verdicts, name))

    assert steps
    assert all("USING" in step and "INDEX" in step for step in steps), steps


def test_the_gains_of_a_study_are_read_from_the_newest_verdicts_and_their_jobs(database: Database) -> None:
    """The walks have a limit, and a job's test is found by the job: no walk goes to it through all tests."""
    steps = plan_of(database, verdict_gains.NEWEST)

    assert all(step.startswith("SEARCH") and ("INDEX" in step or "PRIMARY KEY" in step) for step in steps), steps
    assert 2 == sum("INDEX ix_reports_tests (study_id=? AND job_id=?)" in step for step in steps), steps
