# SPDX-License-Identifier: Apache-2.0
"""The schema's version: migrations forward and back, one process at a time, and never from a newer one."""

from collections.abc import Callable
from functools import cache
from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from ringtune.service.errors import SchemaError

from . import reports
from .database import Database, hold

MIGRATIONS = Path(__file__).with_name("migrations")
LOCK = "ringtune schema"


def migrate(database: Database, revision: str = "head", derive: Callable[[Connection], None] | None = None) -> bool:
    """Bring the schema to a revision, in one transaction; processes that start together take turns.

    Args:
        database: The database.
        revision: A name, `head` or `base`; an older one than now goes back.
        derive: Derives the derived rows from the ledger, in the same transaction and under the ledger's lock.

    Returns:
        Whether anything changed.

    Raises:
        SchemaError: If the database has a revision that this program does not know.
        StoreUnavailable: If the database does not answer.
    """
    database.create_file()
    with database.writing(LOCK) as connection:
        before = _known_revision(connection)
        scripts = _scripts()
        wanted = scripts.get_current_head() if revision == "head" else revision
        if wanted == (before or "base"):
            return False
        if not database.is_sqlite:
            connection.execute(text("SET LOCAL statement_timeout = 0"))
        config = _config()
        config.attributes["connection"] = connection
        if before is not None and _is_behind(scripts, wanted, before):
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)
        if derive is not None:
            hold(connection, reports.LOCK)
            derive(connection)
        return True


def is_current(database: Database) -> bool:
    """Tell whether the schema is this program's; raises StoreUnavailable if the database does not answer."""
    with database.looking() as connection:
        return MigrationContext.configure(connection).get_current_revision() == _head()


@cache
def _head() -> str | None:
    """Return this program's revision, read once: the migrations take longer to read than the database to answer."""
    return _scripts().get_current_head()


def _known_revision(connection: Connection) -> str | None:
    current = MigrationContext.configure(connection).get_current_revision()
    known = {script.revision for script in _scripts().walk_revisions()}
    if current is not None and current not in known:
        raise SchemaError(
            f"the database has schema {current!r}, which this program does not know: a newer one wrote it; "
            "use that one, or restore an export into a new database"
        )
    return current


def _is_behind(scripts: ScriptDirectory, wanted: str | None, current: str) -> bool:
    if wanted in {None, "base"}:
        return True
    ancestors = {script.revision for script in scripts.iterate_revisions(current, "base")}
    return wanted in ancestors and wanted != current


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS).replace("%", "%%"))
    return config


def _scripts() -> ScriptDirectory:
    return ScriptDirectory.from_config(_config())
