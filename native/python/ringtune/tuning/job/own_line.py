# SPDX-License-Identifier: Apache-2.0
"""Lines of the tuner on a stderr that others write to: each begins a line of its own.

A progress bar leaves the cursor within its line. A file shows it by its last byte. A pipe or a terminal cannot be read;
there the bars of tqdm, which most training programs have, are known by themselves.
"""

import os
import stat
import sys
from pathlib import Path

from ringtune.system.console import STDERR_DESCRIPTOR, write_line


def write_own_line(text: str) -> None:
    """Write a line to stderr, after a line end if the text before it has none."""
    if _is_within_line():
        write_line("")
    write_line(text)


def _is_within_line() -> bool:
    """Return whether stderr ends within a line, as far as that can be known."""
    try:
        status = os.fstat(STDERR_DESCRIPTOR)
        if not stat.S_ISREG(status.st_mode):
            tqdm = getattr(sys.modules.get("tqdm"), "tqdm", None)
            return bool(getattr(tqdm, "_instances", ()))  # bars that are not closed
        with Path(f"/proc/self/fd/{STDERR_DESCRIPTOR}").open("rb") as file:
            return status.st_size > 0 and os.pread(file.fileno(), 1, status.st_size - 1) != b"\n"
    except OSError:
        return False
