# SPDX-License-Identifier: Apache-2.0
"""Lines that survive a kill at any byte: each is one write, and the next one is whole behind a torn one."""

import errno
import os
import stat
from pathlib import Path

from .output_files import is_shared, link_refusal
from .whole_file import NEW_FILE_MODE


def open_for_appending(path: Path, mode: int) -> int:
    """Open a file for reading and appending, create it if it is missing, and return its descriptor.

    In a folder where everybody may create files, such as `/tmp`, no symbolic link is followed: another user may have
    linked to a file of this user.

    Args:
        path: The file.
        mode: Permissions of a new file, less the umask.

    Raises:
        OSError: If the file cannot be opened.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    in_shared_folder = is_shared(path.parent)
    try:
        return os.open(path, flags | (os.O_NOFOLLOW if in_shared_folder else 0), mode)
    except OSError as error:
        if error.errno != errno.ELOOP or not in_shared_folder:
            raise
        raise link_refusal(path) from error


def append_lines(descriptor: int, lines: bytes, *, is_alone: bool = False) -> None:
    """Append lines with one write; a last line that was torn before is ended first.

    Args:
        descriptor: A file, open for reading and appending; a pipe or a device takes the lines as they come.
        lines: Lines with their newlines; empty to end a torn line alone.
        is_alone: Whether no other process writes to the file: a failed write's bytes are then taken back.

    Raises:
        OSError: If not all was written.
    """
    status = os.fstat(descriptor)
    size = status.st_size if stat.S_ISREG(status.st_mode) else 0
    is_torn = size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"
    try:
        _write(descriptor, b"\n" * is_torn + lines)
    except OSError:
        if is_alone:
            os.ftruncate(descriptor, size)
        raise


def append_to(path: Path, line: str) -> None:
    """Append a line, without its newline, to a file that this process alone writes to; see `open_for_appending`.

    Raises:
        OSError: If it was not written; the file is as it was, but for the end of a torn line.
    """
    descriptor = open_for_appending(path, NEW_FILE_MODE)
    try:
        append_lines(descriptor, f"{line}\n".encode(), is_alone=True)
    finally:
        os.close(descriptor)


def whole_lines(content: bytes) -> bytes:
    """Return a file's content without a torn last line."""
    return content[: content.rfind(b"\n") + 1]


def _write(descriptor: int, data: bytes) -> None:
    written = os.write(descriptor, data) if data else 0
    if written != len(data):
        words = f"only {written} of {len(data)} bytes could be written: there is no room for more"
        raise OSError(errno.ENOSPC, words)
