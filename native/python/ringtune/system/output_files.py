# SPDX-License-Identifier: Apache-2.0
"""Files that a command writes where it was told to: whole, and never through another user's link.

In a folder where everybody may create files, such as `/tmp`, another user may have linked a name to a file of this
user's. There a link is refused, as it is for the tuning log.
"""

import contextlib
import errno
import os
import secrets
import stat
from pathlib import Path

NEW_FILE_MODE = 0o666  # less the umask
PRIVATE_MODE = 0o600
"""Permissions of a file that is its owner's alone."""


def write_output_file(path: Path, content: bytes) -> None:
    """Replace a file's content as a whole; what a link of one's own, a device or a pipe leads to is written in place.

    Args:
        path: The file; it keeps its permissions, if it is there.
        content: Its new content.

    Raises:
        OSError: If it cannot be written, or is a link in a shared folder; the file is as it was.
    """
    if path.is_symlink() and is_shared(path.parent):
        words = "it is a link in a folder that everybody may write to, and these are not followed"
        raise OSError(errno.ELOOP, words, os.fspath(path))
    mode = path.stat().st_mode if path.exists() else None
    if path.is_symlink() or not (mode is None or stat.S_ISREG(mode)):
        with path.open("wb") as file:
            file.write(content)
    else:
        replace_whole(path, content, None if mode is None else stat.S_IMODE(mode))


def replace_whole(path: Path, content: bytes, mode: int | None = None) -> os.stat_result:
    """Write content beside a file, then rename it onto that; who opens the file meets the old content or the new.

    Args:
        path: The file. A link is replaced, not followed.
        content: Its new content.
        mode: Permissions; None for those of a new file.

    Returns:
        Status of the new file, which another process may have replaced since.

    Raises:
        OSError: If it cannot be written; nothing is left behind then.
    """
    beside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, NEW_FILE_MODE)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            status = os.fstat(file.fileno())
        beside.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            beside.unlink()
        raise
    return status


def is_shared(folder: Path) -> bool:
    """Return whether everybody may create files in a folder; False where it cannot be seen."""
    try:
        return bool(folder.stat().st_mode & (stat.S_ISVTX | stat.S_IWOTH))
    except OSError:
        return False  # writing the file reports the fault
