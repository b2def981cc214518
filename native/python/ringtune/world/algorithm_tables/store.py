# SPDX-License-Identifier: Apache-2.0
"""Keeps algorithm tables in the user's cache folder, one JSON file for each key.

Files are replaced as a whole: a reader meets the old table or the new one. The module does not know engines.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from ringtune.system.cache_files import START_LIMIT_S, read_regular_file, user_cache_folder, within
from ringtune.system.whole_file import PRIVATE_MODE, replace_whole

from .table import AlgorithmTable, TableKey

_MAX_FILE_BYTES = 2**20  # far above any table; a foreign file may be as large as it likes


class TableFileError(Exception):
    """A file that has no table for the job in it; the message names file and reason."""


class NoTableFileError(TableFileError):
    """There is no such file."""


class TableStore:
    """The tables of one folder."""

    def __init__(self, folder: Path) -> None:
        """Keep tables there; the folder is made when the first is written."""
        self._folder = folder

    @classmethod
    def of_user(cls, environ: Mapping[str, str]) -> "TableStore":
        """Return the store in the user's cache folder."""
        return cls(user_cache_folder(environ) / "algorithm-tables")

    def path(self, key: TableKey) -> Path:
        """Return the file of a key."""
        canonical = json.dumps(key.to_json(), sort_keys=True, separators=(",", ":"))
        return self._folder / f"{hashlib.sha256(canonical.encode()).hexdigest()[:16]}.json"

    def load(self, key: TableKey) -> AlgorithmTable | None:
        """Return the table kept for a key, None if there is none.

        Raises:
            TableFileError: If something else is in its file.
        """
        path = self.path(key)
        try:
            table = read_table(path)
        except NoTableFileError:
            return None
        if table.key != key.to_json():
            raise TableFileError(f"{path} holds a table for something else")
        return table

    def save(self, key: TableKey, table: AlgorithmTable) -> Path:
        """Keep a table and return its file; OSError where that is not possible, or not in time."""
        return within(START_LIMIT_S, lambda: self._save(key, table))

    def _save(self, key: TableKey, table: AlgorithmTable) -> Path:
        path = self.path(key)
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_whole(path, json.dumps(table.to_json(), indent=1).encode(), PRIVATE_MODE)
        return path

    def tables(self) -> list[tuple[Path, AlgorithmTable | None]]:
        """Return the folder's files with their tables, None for a file that is not a table."""
        return [(path, _readable(path)) for path in sorted(self._folder.glob("*.json"))]


def read_table(path: Path) -> AlgorithmTable:
    """Return the table in a file, which is read within a time limit: the other ranks wait.

    Raises:
        NoTableFileError: If there is no file; a link to nowhere is none.
        TableFileError: If the file cannot be read or has none.
    """
    try:
        content = within(START_LIMIT_S, lambda: read_regular_file(path, _MAX_FILE_BYTES))
        return AlgorithmTable.from_json(json.loads(content))
    except FileNotFoundError as error:
        raise NoTableFileError(f"{path} cannot be read ({error.strerror})") from error
    except OSError as error:
        raise TableFileError(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise TableFileError(f"{path} is no algorithm table ({error})") from error


def _readable(path: Path) -> AlgorithmTable | None:
    try:
        return read_table(path)
    except TableFileError:
        return None
