# SPDX-License-Identifier: Apache-2.0
"""Readiness to store results: the schema, the database's file, room on its disk, and a real commit.

A commit of somebody's within the last seconds proves as much, so that a busy database is not asked for more.
"""

import errno
import os
import tempfile
import threading
import time
from collections.abc import Callable

import structlog
from sqlalchemy import Connection, text

from ringtune.service.errors import SchemaError, ServiceError, StoreUnavailable

from .damage import DamageWatch
from .database import BUSY_TIMEOUT_S, Database
from .schema import is_current

PROBE_S = 5.0
"""Seconds for which a commit, of a result or of a probe, proves that the database can be written."""
ROOM_BYTES = 1 << 20
"""Room that must be there: a group of results takes less."""
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EIO})
SPILL = text("SELECT count(*) FROM generate_series(1, CAST(:rows AS integer))")
"""Keeps more rows than `work_mem` holds: PostgreSQL writes them into a temporary file, on the disk of its data."""
SPILL_ROWS = ROOM_BYTES // 16


class Readiness:
    """Looks whether the database takes results. Methods may be called from any thread."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        """Look at `database`; `clock` gives seconds."""
        self._database = database
        self._clock = clock
        self._damage = DamageWatch(database, clock)
        self._turn = threading.Lock()  # one probe at a time: callers that wait find its answer
        self._was_ready = True

    def check(self) -> None:
        """Return if a result would be stored, and found after a restart; each change is logged.

        Raises:
            ServiceError: If it would not; it says why.
        """
        try:
            self._check()
        except ServiceError as error:
            if self._was_ready:
                structlog.get_logger().error("not_ready", detail=error.detail, **self._place())
            self._was_ready = False
            raise
        if not self._was_ready:
            structlog.get_logger().info("ready_again", **self._place())
        self._was_ready = True

    def close(self) -> None:
        """End the scan for damage."""
        self._damage.close()

    def _check(self) -> None:
        self._damage.look()
        self._database.check_file()
        if not is_current(self._database):
            raise SchemaError("the database has not this program's schema; restart the service to bring it up to date")
        if not self._turn.acquire(timeout=BUSY_TIMEOUT_S):
            raise StoreUnavailable("the database has not answered yet whether it can be written; try again")
        try:
            if self._clock() - self._database.committed_s > PROBE_S:
                self._probe()
        finally:
            self._turn.release()

    def _probe(self) -> None:
        """Make sure of room, then make a commit without a change."""
        if self._database.file is not None:
            _require_room(os.fspath(self._database.file.path.parent))
        with self._database.writing() as connection:
            (_touch_sqlite if self._database.is_sqlite else _touch_postgresql)(connection)

    def _place(self) -> dict[str, str]:
        file = self._database.file
        return {} if file is None else {"file": str(file.path)}


def _require_room(folder: str) -> None:
    """Reserve room in a file without a name, which is gone at once; raises StoreUnavailable if there is none."""
    try:
        with tempfile.TemporaryFile(dir=folder, prefix="ringtune-room-") as file:
            os.posix_fallocate(file.fileno(), 0, ROOM_BYTES)
    except OSError as error:
        if error.errno in NO_ROOM:
            raise StoreUnavailable(
                f"the disk of the database has no room for {ROOM_BYTES >> 20} MiB ({error.strerror}); make room"
            ) from error


def _touch_sqlite(connection: Connection) -> None:
    """Write the first page as it is: one page into the write-ahead log, which does not grow for it in the long run."""
    version = int(connection.exec_driver_sql("PRAGMA user_version").scalar_one())
    connection.exec_driver_sql(f"PRAGMA user_version = {version}")


def _touch_postgresql(connection: Connection) -> None:
    """Write to the data's disk and to the write-ahead log, and leave no rows behind."""
    connection.execute(text("SET LOCAL work_mem = '64kB'"))
    connection.execute(SPILL, {"rows": SPILL_ROWS})
    connection.execute(text("SELECT pg_logical_emit_message(true, 'ringtune', 'ready')"))
