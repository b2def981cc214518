# SPDX-License-Identifier: Apache-2.0
"""Files that a command writes to a given path: whole, and never through another user's link.

In a folder where everybody may create files, such as `/tmp`, another user may have linked a name to a file of this
user's. There a link is refused, as it is for the tuning log.
"""

import errno
import os
import stat
from pathlib import Path

from .whole_file import replace_whole


def write_output_file(path: Path, content: bytes) -> None:
    """Replace a file's content as a whole; the target of one's own link, a device or a pipe is written in place.

    Args:
        path: The file; it keeps its permissions, if it is there.
        content: Its new content.

    Raises:
        OSError: If it cannot be written, or is a link in a shared folder; the file is as it was.
    """
    if path.is_symlink() and is_shared(path.parent):
        raise link_refusal(path)
    mode = path.stat().st_mode if path.exists() else None
    if path.is_symlink() or not (mode is None or stat.S_ISREG(mode)):
        with path.open("wb") as file:
            file.write(content)
    else:
        replace_whole(path, content, None if mode is None else stat.S_IMODE(mode))


def is_shared(folder: Path) -> bool:
    """Return whether everybody may create files in a folder; False where it cannot be seen."""
    try:
        return bool(folder.stat().st_mode & (stat.S_ISVTX | stat.S_IWOTH))
    except OSError:
        return False  # writing the file reports the fault


def link_refusal(path: Path) -> OSError:
    """Return the error for a link in a shared folder."""
    words = "it is a link in a folder that everybody may write to, and these are not followed"
    return OSError(errno.ELOOP, words, os.fspath(path))
