# SPDX-License-Identifier: Apache-2.0
"""Migrations: forward and back, once whoever starts, and never over a newer schema."""

import subprocess
import sys

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import inspect, text

from ringtune.service.domain import Service, ServiceLimits
from ringtune.service.domain import service as domain_service
from ringtune.service.errors import SchemaError
from ringtune.service.store import Database, is_current, migrate, summaries
from ringtune.service.store.tables import METADATA
from tests.unit.service.domain.reported import BETTER, QUERY, look, measure, study_of

PROCESSES = 2
DERIVED = {table.name for table in summaries.DERIVED}
MIGRATE = "import sys; from ringtune.service.store import Database, migrate; print(migrate(Database.open(sys.argv[1])))"


def table_names(database: Database) -> set[str]:
    """Return the names of all tables but Alembic's own."""
    return set(inspect(database.engine).get_table_names()) - {"alembic_version"}


def test_migrations_give_the_tables_that_the_queries_know(empty: str) -> None:
    """After all migrations the database and the tables in Python do not differ."""
    database = Database.open(empty)

    assert migrate(database)

    with database.reading() as connection:
        assert [] == compare_metadata(MigrationContext.configure(connection), METADATA)
    assert is_current(database)
    assert not migrate(database)
    database.close()


def test_migrations_go_back(empty: str) -> None:
    """Each step back removes the additions of the step forward; forward again works."""
    database = Database.open(empty)
    migrate(database)
    everything = table_names(database)

    migrate(database, "ledger")
    before_summaries = table_names(database)
    migrate(database, "base")

    later = {"job_facts", *DERIVED, "jobs", "page_sessions", "said_names", "said_spaces", "token_usage"}
    assert everything - before_summaries == later
    assert set() == table_names(database)
    assert not is_current(database)
    migrate(database)
    assert everything == table_names(database)
    database.close()


def test_a_service_derives_the_rows_that_a_migration_emptied(database: Database) -> None:
    """After a step back and forward the summaries are as before, from the ledger alone."""
    service = Service(database, policy=ServiceLimits(design_workers=0))
    service.start()
    study = study_of(service)
    look(service, study, "job-1", BETTER, 80.0)
    with database.reading() as connection:
        before = summaries.everything(connection, study.study_id)

    migrate(database, "ledger")
    assert service.migrate()

    with database.reading() as connection:
        assert before == summaries.everything(connection, study.study_id)
    assert before[1]
    service.close()


def test_a_migration_that_does_not_derive_is_not_made(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """If it ends before the summaries are there, the next start does both."""
    service = Service(database, policy=ServiceLimits(design_workers=0))
    service.start()
    measure(service, study_of(service), "job-1", BETTER, 80.0)
    migrate(database, "ledger")
    with monkeypatch.context() as patched:
        patched.setattr(domain_service, "rebuild_all", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            service.migrate()

    assert not is_current(database)
    assert service.migrate()
    assert BETTER == service.recommendations.find(QUERY).config
    service.close()


def test_a_newer_schema_is_refused_by_name(empty: str) -> None:
    """A database that a newer program wrote is left alone."""
    database = Database.open(empty)
    migrate(database)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = 'from_the_future'"))

    with pytest.raises(SchemaError, match=r"from_the_future.*newer"):
        migrate(database)

    assert not is_current(database)
    database.close()


def test_processes_that_start_together_migrate_once(empty: str) -> None:
    """One of several processes migrates; the others wait and find it done."""
    command = [sys.executable, "-c", MIGRATE, empty]

    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(PROCESSES)]
    answers = [process.communicate(timeout=60)[0].strip() for process in started]

    assert ["False"] * (PROCESSES - 1) + ["True"] == sorted(answers)
    assert [0] * PROCESSES == [process.returncode for process in started]
