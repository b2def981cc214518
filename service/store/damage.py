# SPDX-License-Identifier: Apache-2.0
"""Damage to an SQLite file: looked for now and then, in a thread, and taken back when the file is whole again.

PostgreSQL looks for damage itself, page by page.
"""

import math
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress

from ringtune.service.errors import StoreUnavailable

from .database import WHAT_TO_DO, Database

LEAST_REST_S = 5.0
REST_SHARE = 100.0
"""Looking through a file rests so many times as long as it took: large files are looked through rarely."""
DAMAGED_REST_S = 0.5
"""The rest while the file is damaged, so that one that was restored is used at once."""


class DamageWatch:
    """Looks through the file whenever it is asked and the last time is long enough ago."""

    def __init__(self, database: Database, clock: Callable[[], float] = time.monotonic) -> None:
        """Watch `database`."""
        self._database = database
        self._clock = clock
        self._next_s = -math.inf
        self._verdict: str | None = None
        self._running: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()  # guards all of the above

    def look(self) -> None:
        """Begin to look if it is time; never waits.

        Raises:
            StoreUnavailable: If damage is known.
        """
        file = self._database.file
        if file is None:
            return
        with self._lock:
            is_due = self._clock() >= self._next_s or self._verdict != self._database.damage  # a query met it
            if is_due and (self._running is None or not self._running.is_alive()):
                self._running = threading.Thread(target=self._run, name="ringtune-damage", daemon=True)
                self._running.start()
        damage = self._database.damage
        if damage is not None:
            raise StoreUnavailable(f"the database's file is damaged ({damage}); {WHAT_TO_DO}")

    def close(self) -> None:
        """End a look that is under way."""
        with self._lock:
            running, connection = self._running, self._connection
        if connection is not None:
            with suppress(sqlite3.ProgrammingError):  # it was closed meanwhile
                connection.interrupt()
        if running is not None:
            running.join()

    def _run(self) -> None:
        began_s = self._clock()
        found = self._found()
        self._database.note_damage(found)
        self._verdict = found
        ended_s = self._clock()
        rest_s = max(LEAST_REST_S, REST_SHARE * (ended_s - began_s)) if found is None else DAMAGED_REST_S
        with self._lock:
            self._next_s = ended_s + rest_s

    def _found(self) -> str | None:
        """Return the damage, as SQLite says it; None without any, or if the file cannot be looked at."""
        file = self._database.file
        assert file is not None
        try:
            # Without the memory of other connections: the file as a program would find it that is started now.
            with closing(file.connect(timeout=1.0, check_same_thread=False)) as connection:
                with self._lock:
                    self._connection = connection
                verdict = str(connection.execute("PRAGMA quick_check(1)").fetchone()[0])
        except (sqlite3.OperationalError, StoreUnavailable):
            return self._database.damage
        except sqlite3.DatabaseError as error:
            return str(error)
        finally:
            with self._lock:
                self._connection = None
        return None if verdict == "ok" else verdict.partition("\n")[2] or verdict
