# SPDX-License-Identifier: Apache-2.0
"""The file of an SQLite database: made for its owner alone, and told from any other that takes its name.

SQLite goes on with an open file whatever becomes of its name: it acknowledges commits that cannot be found after a
restart. So the open file and its write-ahead log are compared with their paths, by device and inode.
"""

import os
import sqlite3
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from ringtune.service.errors import StoreUnavailable

MODE = 0o600
"""Permissions of a file that is made; SQLite gives its write-ahead log and its index the same."""
LOG_SUFFIX = "-wal"

Inode = tuple[int, int]
"""Device and inode."""


@dataclass
class Opened:
    """The files that a connection has open.

    Attributes:
        database: The database's device and inode.
        log: Those of the write-ahead log; None until there is one.
    """

    database: Inode | None
    log: Inode | None


class SqliteFile:
    """One database's file, and which files this process's connections have open. Methods may be called by any thread.

    Attributes:
        path: The file, links resolved: SQLite has the write-ahead log beside it.
    """

    def __init__(self, path: str) -> None:
        """Take the path; the file is not opened."""
        self.path = Path(os.path.realpath(path))
        self._log = self.path.with_name(self.path.name + LOG_SUFFIX)
        self._open: dict[int, Opened] = {}
        self._lock = threading.RLock()  # guards the table above; the garbage collector may close a connection anywhere

    def create(self) -> None:
        """Make an empty file for this user alone if there is none.

        Raises:
            StoreUnavailable: If it cannot be made.
        """
        try:
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, MODE))
        except FileExistsError:
            return
        except OSError as error:
            raise StoreUnavailable(
                f"the database {self.path} cannot be made ({error.strerror}); name a file in a folder that exists "
                "and can be written"
            ) from error

    def connect(self, **options: Any) -> sqlite3.Connection:
        """Open the file, which is never made by that: an empty one would take the place of one that was moved.

        Raises:
            StoreUnavailable: If other connections have another file open than the path leads to now.
            sqlite3.OperationalError: If it cannot be opened, or was replaced meanwhile.
        """
        before = _inode(self.path)
        with self._lock:
            for opened in list(self._open.values()):
                self._compare(opened)
        connection: sqlite3.Connection = sqlite3.connect(f"file:{quote(str(self.path))}?mode=rw", uri=True, **options)
        if before != _inode(self.path):
            connection.close()
            raise sqlite3.OperationalError("unable to open database file: it was replaced at this moment")
        return connection

    def note(self, connection: sqlite3.Connection) -> None:
        """Remember which files a new connection has open."""
        with self._lock:
            self._open[id(connection)] = Opened(_inode(self.path), _inode(self._log))

    def forget(self, connection: sqlite3.Connection) -> None:
        """Forget a connection that is closed."""
        with self._lock:
            self._open.pop(id(connection), None)

    def check(self) -> None:
        """Compare the open files with their paths.

        Raises:
            StoreUnavailable: If written rows would not be found at the path.
        """
        with self._lock:
            for opened in list(self._open.values()):
                self._compare(opened)

    def _compare(self, opened: Opened) -> None:
        found = _inode(self.path)
        if found is None:
            raise StoreUnavailable(
                "the database's file was moved or removed while it was open; put it back, or restart the service"
            )
        if found != opened.database:
            raise StoreUnavailable(
                "another file has taken the place of the database's while it was open; restart the service to use it, "
                "or put the first one back"
            )
        log = _inode(self._log)
        if opened.log is None:
            opened.log = log  # a new database has none before its first write
        elif log != opened.log:
            raise StoreUnavailable(
                f"the database's write-ahead log ({LOG_SUFFIX}) was moved or removed while it was open; put it back, "
                "or restart the service"
            )


def path_in(arguments: Sequence[Any], options: Mapping[str, Any]) -> str | None:
    """Return the path in the name that SQLAlchemy would hand to `sqlite3.connect`; None for a URI without a file."""
    path = str(arguments[0])
    return None if options.get("uri") or path.startswith("file:") else path


def _inode(path: Path) -> Inode | None:
    """Return a file's device and inode; None if there is none, or none that can be seen."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
