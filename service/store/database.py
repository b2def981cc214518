# SPDX-License-Identifier: Apache-2.0
"""The database: a small pool of connections, transactions that read or write, and the differences of the dialects.

SQLite has a write-ahead log that is synced at every commit, and one writer at a time, chosen by a lock of this process
and then by the file's. PostgreSQL has `synchronous_commit`. So a committed row is on disk, on both.
"""

import math
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from types import MappingProxyType
from typing import Any, TypeVar

import structlog
from sqlalchemy import BigInteger, ColumnElement, Connection, Engine, Table, cast, create_engine, event, func, text
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import (
    ArgumentError,
    DatabaseError,
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.pool import ConnectionPoolEntry, QueuePool

from ringtune.service.errors import InvalidRequest, Overloaded, StoreUnavailable

from .rows import columns_of
from .sqlite_file import SqliteFile, path_in

MAX_CONNECTIONS = 8
"""Maximum connections of one process; two processes stay below twenty."""
POOL_WAIT_S = 5.0
BUSY_TIMEOUT_S = 10.0
"""Seconds for which SQLite waits for another process that writes."""
BUSY_LOOK_S = 0.01
POSTGRESQL_OPTIONS = "-c synchronous_commit=on -c statement_timeout=60000 -c lock_timeout=15000 -c timezone=UTC"
RETRY_AFTER_S = 1.0
IDLE_S = 1.0
"""Seconds without use after which a connection is asked whether it still holds before it is used again."""
USED_S = "ringtune.used_s"
DAMAGED = frozenset({"XX001", "XX002"})
"""PostgreSQL's codes for a damaged page and a damaged index."""
READ_ONLY = "25006"
"""PostgreSQL's code for a write where only reads are allowed: a standby, or a disk about to be full."""
WHAT_TO_DO = "restore its file, or import an export into a new database"

POOL: Mapping[str, Any] = MappingProxyType(
    {"poolclass": QueuePool, "pool_size": MAX_CONNECTIONS, "max_overflow": 0, "pool_timeout": POOL_WAIT_S}
)


Found = TypeVar("Found")


class Database:
    """Connections to one database. Methods may be called from any thread.

    Attributes:
        engine: SQLAlchemy's.
        file: SQLite's file; None for PostgreSQL.
        is_sqlite: Whether it is SQLite.
        committed_s: When something was last committed, on the monotonic clock; minus infinity since a write failed.
        damage: Known damage of SQLite's file; None without any.
    """

    def __init__(self, engine: Engine, file: SqliteFile | None = None) -> None:
        """Use an engine that `open` has made.

        Args:
            engine: Its connections.
            file: SQLite's; None for PostgreSQL.
        """
        self.engine = engine
        self.file = file
        self.is_sqlite = engine.dialect.name == "sqlite"
        self.committed_s = -math.inf
        self.damage: str | None = None
        self._write_lock = threading.Lock()  # SQLite's writers take turns here instead of polling the file's lock

    @classmethod
    def open(cls, url: str) -> "Database":
        """Prepare connections; none is made yet.

        Args:
            url: `sqlite:///file` or `postgresql+psycopg://user:password@host/name`.

        Raises:
            InvalidRequest: If the URL is for neither, or names no file.
        """
        parsed = _parsed(url)
        if parsed.get_backend_name() == "sqlite":
            return cls(*_sqlite_engine(parsed))
        return cls(_postgresql_engine(parsed))

    def reading(self) -> AbstractContextManager[Connection]:
        """Begin a transaction that only reads: its view does not change while it lasts.

        Raises:
            Overloaded: If no connection became free in time.
            StoreUnavailable: If the database does not answer.
        """
        return self._connection("BEGIN" if self.is_sqlite else "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")

    def looking(self) -> AbstractContextManager[Connection]:
        """Open a connection for single reads, each of which is a transaction of its own; raises as `reading`."""
        return self._connection(None)

    def look(self, read: Callable[[Connection], Found]) -> Found:
        """Return the findings of single reads; if the connection turns out to be lost they are repeated on another.

        Args:
            read: Gets a connection, as `looking` gives it; may be called twice.

        Raises:
            Overloaded: If no connection became free in time.
            StoreUnavailable: If the database does not answer.
        """
        with self._said():
            try:
                return self._looked(read)
            except DBAPIError as error:
                if not error.connection_invalidated:
                    raise
                return self._looked(read)

    @contextmanager
    def writing(self, lock: str | None = None) -> Iterator[Connection]:
        """Begin a transaction that writes; it is durable when the block is left.

        Args:
            lock: Transactions with the same name wait for each other, in all processes. On SQLite all do.

        Raises:
            Overloaded: If no connection became free in time.
            StoreUnavailable: If the database does not answer; the rows may be stored, or not.
        """
        turn = self._write_lock if self.is_sqlite else nullcontext()
        begin = "BEGIN IMMEDIATE" if self.is_sqlite else "BEGIN"
        try:
            with turn:
                with self._connection(begin) as connection:
                    if lock is not None:
                        hold(connection, lock)
                    yield connection
                    self.check_file()
                self.check_file()  # it may have been moved during the commit: then no reply may say "stored"
                self.committed_s = time.monotonic()
        except StoreUnavailable:
            self.committed_s = -math.inf
            raise

    def check_file(self) -> None:
        """Raise StoreUnavailable if SQLite's file is not where it was opened: the rows would not be found there."""
        if self.file is not None:
            self.file.check()

    def create_file(self) -> None:
        """Make SQLite's file, for this user alone, if there is none."""
        if self.file is not None:
            self.file.create()

    def note_damage(self, damage: str | None) -> None:
        """Remember the damage; None once the file is whole, and then no trace of it is left in memory."""
        if damage is None and self.damage is not None:
            self.engine.dispose()
        self.damage = damage

    def connections_in_use(self) -> int:
        """Return how many connections are checked out."""
        pool = self.engine.pool
        return pool.checkedout() if isinstance(pool, QueuePool) else 0

    def close(self) -> None:
        """Close all idle connections."""
        self.engine.dispose()

    def _looked(self, read: Callable[[Connection], Found]) -> Found:
        with self.engine.connect() as connection:
            return read(connection)

    @contextmanager
    def _connection(self, begin: str | None) -> Iterator[Connection]:
        """Take a connection and begin a transaction with these words, or none."""
        with self._said(), self.engine.connect() as connection, connection.execution_options(begin=begin).begin():
            yield connection

    @contextmanager
    def _said(self) -> Iterator[None]:
        """Turn an error of the database into a ServiceError, unless it is about the question."""
        try:
            yield
        except PoolTimeout as error:
            raise Overloaded(
                f"none of {MAX_CONNECTIONS} database connections became free within {POOL_WAIT_S:g} s; try again later",
                retry_after_s=RETRY_AFTER_S,
            ) from error
        except (OperationalError, InterfaceError) as error:
            raise StoreUnavailable(
                f"the database does not answer ({_cause(error)}); try again", retry_after_s=RETRY_AFTER_S
            ) from error
        except DBAPIError as error:
            if error.connection_invalidated:
                raise StoreUnavailable(
                    f"the database was lost ({_cause(error)}); try again", retry_after_s=RETRY_AFTER_S
                ) from error
            if self._is_damage(error):
                raise StoreUnavailable(
                    f"the database is damaged ({_cause(error)}); {WHAT_TO_DO}", retry_after_s=RETRY_AFTER_S
                ) from error
            if getattr(error.orig, "sqlstate", None) == READ_ONLY:
                raise StoreUnavailable(
                    f"the database takes no writes ({_cause(error)}); try again", retry_after_s=RETRY_AFTER_S
                ) from error
            raise

    def _is_damage(self, error: DBAPIError) -> bool:
        """Tell whether an error is about the data's bytes; SQLite's is then remembered."""
        if not self.is_sqlite:
            return getattr(error.orig, "sqlstate", None) in DAMAGED
        if type(error) is not DatabaseError:  # its kinds are about the question
            return False
        if self.damage is None:
            structlog.get_logger().error(
                "database_damaged", detail=_cause(error), file=str(self.file and self.file.path)
            )
        self.damage = _cause(error)
        return True


def hold(connection: Connection, lock: str) -> None:
    """Wait for a lock, and hold it until the transaction ends; on SQLite every writer holds them all."""
    if connection.dialect.name != "sqlite":
        connection.execute(text("SELECT pg_advisory_xact_lock(hashtextextended(:name, 0))"), {"name": lock})


def upsert(connection: Connection, table: Table, rows: Sequence[object]) -> None:
    """Insert rows, or replace those that have the same primary key."""
    if not rows:
        return
    is_sqlite = connection.dialect.name == "sqlite"
    statement = sqlite.insert(table) if is_sqlite else postgresql.insert(table)
    keys = [column.name for column in table.primary_key]
    replaced = {name: statement.excluded[name] for name in vars(rows[0]) if name not in keys}
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=replaced), columns_of(rows))


def whole_sum(column: ColumnElement[int]) -> ColumnElement[int]:
    """Return the sum of whole numbers as one; PostgreSQL's own is a decimal."""
    return cast(func.sum(column), BigInteger())


def _parsed(url: str) -> URL:
    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):  # their text may have the password in it
        raise InvalidRequest("the database URL cannot be read; give sqlite:///file or postgresql+psycopg://…") from None
    if parsed.drivername not in {"sqlite", "postgresql", "postgresql+psycopg"}:
        raise InvalidRequest(
            f"databases of the kind {parsed.drivername!r} are not known; give sqlite:///file or postgresql+psycopg://…"
        )
    if parsed.drivername == "sqlite" and parsed.database in {None, "", ":memory:"}:
        raise InvalidRequest("SQLite needs a file: what is kept in memory is not durable; give sqlite:///file")
    return parsed.set(drivername="postgresql+psycopg") if parsed.drivername == "postgresql" else parsed


def _sqlite_engine(url: URL) -> tuple[Engine, SqliteFile]:
    """Return an engine whose connections never make a file, and which knows the file that each has open.

    Raises:
        InvalidRequest: If the URL is one of SQLite's own, which need not name a file.
    """
    arguments, options = sqlite.dialect().create_connect_args(url)
    path = path_in(arguments, options)
    if path is None:
        raise InvalidRequest("SQLite's own URIs (file:…) are not taken; give sqlite:///file")
    file = SqliteFile(path)
    options = {**options, "timeout": BUSY_TIMEOUT_S, "check_same_thread": False}
    engine = create_engine(url, creator=lambda: file.connect(**options), **POOL)

    def prepare(connection: Any, _record: object) -> None:
        connection.isolation_level = None  # explicit transactions: the driver would begin them on its own, and late
        _keep_write_ahead_log(connection)
        for setting in ("synchronous=FULL", "foreign_keys=ON"):
            connection.execute(f"PRAGMA {setting}")
        file.note(connection)

    def forget(connection: Any, _record: object = None) -> None:
        file.forget(connection)

    event.listen(engine, "connect", prepare)
    event.listen(engine, "close", forget)
    event.listen(engine, "close_detached", forget)
    event.listen(engine, "begin", _begin)
    return engine, file


def _keep_write_ahead_log(connection: Any) -> None:
    """Switch the file to a write-ahead log, if it has none; for that alone SQLite waits for no other process."""
    end_s = time.monotonic() + BUSY_TIMEOUT_S
    while time.monotonic() < end_s:
        with suppress(sqlite3.OperationalError):
            connection.execute("PRAGMA journal_mode=WAL")
            return
        time.sleep(BUSY_LOOK_S)
    connection.execute("PRAGMA journal_mode=WAL")


def _postgresql_engine(url: URL) -> Engine:
    """Make transactions explicit here too: for a single read none is begun, and no mode of a connection is switched."""
    options = {"connect_timeout": 3, "options": POSTGRESQL_OPTIONS}
    engine = create_engine(url, connect_args=options, isolation_level="AUTOCOMMIT", **POOL)
    ping, broken = engine.dialect.do_ping, engine.dialect.loaded_dbapi.Error

    def check(connection: Any, record: ConnectionPoolEntry, _proxy: object) -> None:
        """Replace a connection that was lost while it was idle; asking each time would double the cost of a read."""
        if time.monotonic() - record.info.get(USED_S, math.inf) <= IDLE_S:
            return
        try:
            ping(connection)
        except broken as error:
            raise DisconnectionError from error

    def note(_connection: object, record: ConnectionPoolEntry) -> None:
        record.info[USED_S] = time.monotonic()

    event.listen(engine, "checkout", check)
    event.listen(engine, "checkin", note)
    event.listen(engine, "begin", _begin)
    return engine


def _begin(connection: Connection) -> None:
    begin = connection.get_execution_options().get("begin")
    if begin is not None:
        connection.exec_driver_sql(begin)


def _cause(error: DBAPIError) -> str:
    """Return the driver's words, of which the first line says all."""
    return str(error.orig).partition("\n")[0][:200]
