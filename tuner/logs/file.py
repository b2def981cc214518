# SPDX-License-Identifier: Apache-2.0
"""Files of tuning logs, opened safely: reading always ends, and nothing is appended to a file with other content."""

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from typing import Any, BinaryIO, cast

from ringtune.system.event_loop import is_readable

MAX_BYTES = 4 << 30
"""Maximum size of a tuning log; a run writes a few hundred kilobytes."""
PIPE_IDLE_S = 30.0
"""Time without data after which a pipe counts as one without a writer, seconds."""
BUFFER_BYTES = 1 << 20
HEAD_BYTES = 64 << 10
"""Number of bytes at the beginning of a file within which a line of a tuning log must begin."""
RECORD_STARTS = (b'{"type":', b'{"type" :')
CSV_START = b"hierarchical_allreduce,"
"""Beginning of Horovod's CSV header, the same in every version."""


class _Bounded(RawIOBase):
    """Stream over a descriptor with a limit on size and idle time; closing it closes the descriptor."""

    def __init__(self, descriptor: int, max_bytes: int, idle_s: float) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._left = max_bytes
        self._idle_s = idle_s

    def readable(self) -> bool:
        """Return True: the stream can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the available bytes; raises OSError if none come in time, or too many."""
        view = memoryview(buffer).cast("B")
        if not is_readable(self._descriptor, self._idle_s):
            raise OSError(errno.ETIMEDOUT, f"nothing came for {self._idle_s:g} s")
        data = os.read(self._descriptor, len(view))
        self._left -= len(data)
        if self._left < 0:
            raise OSError(errno.EFBIG, f"more than {MAX_BYTES >> 30} GiB, which no tuning log has")
        view[: len(data)] = data
        return len(data)

    def close(self) -> None:
        """Close the descriptor; idempotent."""
        if not self.closed:
            os.close(self._descriptor)
        super().close()


@contextmanager
def reading(path: str | os.PathLike[str], *, takes_pipes: bool = False) -> Iterator[BinaryIO]:
    """Open a log for reading; refuse a device, a file beyond MAX_BYTES and, without `takes_pipes`, a pipe.

    Raises:
        OSError: If the file cannot be opened or read, also within the block; the error names the file.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with BufferedReader(_Bounded(descriptor, MAX_BYTES, PIPE_IDLE_S), BUFFER_BYTES) as stream:
            _check_kind(os.fstat(descriptor), takes_pipes=takes_pipes)
            yield cast("BinaryIO", stream)
    except OSError as error:
        if error.filename is not None:
            raise
        raise OSError(error.errno, error.strerror or str(error), os.fspath(path)) from error


def _check_kind(status: os.stat_result, *, takes_pipes: bool) -> None:
    if stat.S_ISFIFO(status.st_mode) and takes_pipes:
        return
    if stat.S_ISDIR(status.st_mode):
        raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")
    if status.st_size > MAX_BYTES:
        raise OSError(errno.EFBIG, f"more than {MAX_BYTES >> 30} GiB, which no tuning log has")


def refuse_other_content(descriptor: int, *, is_csv: bool = False) -> None:
    """Refuse to append to a file that has content but no line of a tuning log.

    Args:
        descriptor: Descriptor open for reading; a device or a pipe has no content to damage.
        is_csv: Whether the log has Horovod's columns.

    Raises:
        OSError: If the file has other content.
    """
    status = os.fstat(descriptor)
    if not stat.S_ISREG(status.st_mode) or status.st_size == 0:
        return
    starts = (CSV_START,) if is_csv else RECORD_STARTS
    lines = os.pread(descriptor, HEAD_BYTES, 0).split(b"\n")
    if any(line.startswith(starts) for line in lines):
        return
    if len(lines) == 1 and any(start.startswith(lines[0]) for start in starts):
        return  # a kill truncated its first line
    raise OSError(errno.EINVAL, "the file has something else than a tuning log in it, and nothing was written to it")


def advice_on(error: OSError) -> str:
    """Return what to do about a log that cannot be opened or written, for the end of a message."""
    if error.errno in {errno.EINVAL, errno.EISDIR}:
        return "give the log another name"
    if error.errno == errno.ELOOP:
        return "choose a file in a folder of your own"
    return "choose a file in a folder that exists and is yours"
