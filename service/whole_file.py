# SPDX-License-Identifier: Apache-2.0
"""A file that is there whole, or not at all: written beside its place, and moved there when it is on the disk."""

import os
import secrets
from collections.abc import Iterable
from errno import EEXIST
from pathlib import Path

SUFFIX = ".partial"
MODE = 0o600
"""Permissions of the file: an export has the names of everybody's jobs, models and machines."""


def write_whole(file: Path, lines: Iterable[str]) -> None:
    """Write a new file; where anything fails in between, neither it nor a part of it is left.

    Args:
        file: Must not be there.
        lines: Lines with their newlines; errors of the iterator pass through.

    Raises:
        OSError: If the file is there already, or cannot be written.
    """
    if file.exists():  # said before the work, not after it
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(file))
    beside = file.with_name(f".{file.name}.{secrets.token_hex(4)}{SUFFIX}")
    try:
        with open(beside, "x", encoding="utf-8", opener=_open_for_its_owner) as out:
            out.writelines(lines)
            out.flush()
            os.fsync(out.fileno())
        _move(beside, file)
    finally:
        beside.unlink(missing_ok=True)


def _open_for_its_owner(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, MODE)


def _move(beside: Path, file: Path) -> None:
    """Give a file its name, unless somebody else took that meanwhile."""
    file.touch(MODE, exist_ok=False)
    try:
        beside.replace(file)
    except OSError:
        file.unlink()
        raise
    _sync_folder(file.parent)


def _sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
