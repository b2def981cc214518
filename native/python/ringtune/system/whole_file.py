# SPDX-License-Identifier: Apache-2.0
"""Files that are there whole or not at all: written beside their place, and renamed onto it once they are complete."""

import contextlib
import os
import secrets
from collections.abc import Iterator
from errno import EEXIST
from pathlib import Path
from typing import BinaryIO

NEW_FILE_MODE = 0o666  # less the umask
PRIVATE_MODE = 0o600
"""Permissions of a file that is its owner's alone."""


@contextlib.contextmanager
def whole_file(
    path: Path, mode: int | None = None, *, is_new: bool = False, is_synced: bool = False
) -> Iterator[BinaryIO]:
    """Open a file beside `path`, and rename it onto that after the block; readers meet the old content or the new.

    Args:
        path: The file. A link is replaced, not followed.
        mode: Permissions; None for those of a new file.
        is_new: Whether no file may be there.
        is_synced: Whether the content and the name are on the disk when this returns.

    Yields:
        The open file, which appends; its descriptor stays that of the file after the rename.

    Raises:
        OSError: If it cannot be written, or is there and must not be; no partial file is left, whatever the error.
    """
    if is_new and path.exists():  # said before the work, not after it
        raise FileExistsError(EEXIST, os.strerror(EEXIST), str(path))
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(beside, flags, NEW_FILE_MODE if mode is None else mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            if mode is not None:
                os.fchmod(descriptor, mode)
            yield file
            if is_synced:
                file.flush()
                os.fsync(descriptor)
        _rename(beside, path, is_new=is_new)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    if is_synced:
        _sync_folder(path.parent)


def replace_whole(path: Path, content: bytes, mode: int | None = None) -> os.stat_result:
    """Replace a file's content; arguments and errors as in `whole_file`.

    Returns:
        Status of the new file, which another process may have replaced since.
    """
    with whole_file(path, mode) as file:
        file.write(content)
        file.flush()
        return os.fstat(file.fileno())


def _rename(beside: Path, path: Path, *, is_new: bool) -> None:
    """Give a file its name; a new one's unless another process took that meanwhile."""
    if is_new:
        path.touch(PRIVATE_MODE, exist_ok=False)
    try:
        beside.replace(path)
    except OSError:
        if is_new:
            path.unlink()
        raise


def _sync_folder(folder: Path) -> None:
    """Bring a folder's names to the disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
