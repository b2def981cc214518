# SPDX-License-Identifier: Apache-2.0
"""The folder through which the caller of `ringtune.run` and its ranks exchange files: its paths, and its end.

The caller holds a lock in it as long as it lives, in whatever container it is: of a caller that was killed the lock is
free, and the next call removes the folder.
"""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ringtune.system.file_lock import lock_file, replace_locked, unlock_file

MODULE_NAME = "ringtune_function"
"""Name of the module that is made from a function's source."""
PREFIX = "ringtune-run-"
HELD = "held"
"""The file that the caller has locked; it comes into being locked."""


@dataclass(frozen=True)
class CallFolder:
    """A folder of one call, which only its user may enter."""

    path: Path

    @property
    def call(self) -> Path:
        """The file that names the function."""
        return self.path / "call"

    @property
    def arguments(self) -> Path:
        """The file that holds its arguments, whose classes come with the function."""
        return self.path / "arguments"

    @property
    def source(self) -> Path:
        """The module made from the function's source."""
        return self.path / f"{MODULE_NAME}.py"

    def outcome(self, rank: int) -> Path:
        """Return the file that holds the outcome of a rank's call."""
        return self.path / f"outcome.{rank}"

    def worker_outcome(self, worker: str) -> Path:
        """Return the file that holds the outcome of the call of an elastic job's worker."""
        return self.path / f"worker.{worker}"

    def worker_outcomes(self) -> list[Path]:
        """Return the files of all workers that have left an outcome."""
        return [path for path in self.path.glob("worker.*") if path.suffix[1:].isdigit()]


@contextmanager
def new_call_folder(parent: Path | None = None) -> Iterator[CallFolder]:
    """Make a folder for a call, and remove it afterwards; remove those of callers that were killed.

    Args:
        parent: Folder to make it in; None for the one for temporary files.

    Raises:
        OSError: If there is no room for one.
    """
    parent = parent or Path(tempfile.gettempdir())
    for abandoned in parent.glob(f"{PREFIX}*"):
        _remove_if_abandoned(abandoned)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=parent) as name, _held(Path(name)):
        yield CallFolder(Path(name))


@contextmanager
def _held(folder: Path) -> Iterator[None]:
    """Hold a folder's lock; a file system without locks has none, and there no folder is taken for abandoned."""
    descriptor = None
    with suppress(OSError):
        descriptor = replace_locked(folder / HELD, b"")
    try:
        yield
    finally:
        if descriptor is not None:
            unlock_file(descriptor)


def _remove_if_abandoned(folder: Path) -> None:
    """Remove a folder of this user's whose lock can be had."""
    with suppress(OSError):
        if folder.lstat().st_uid == os.geteuid():
            descriptor = lock_file(folder / HELD, partial(os.open, flags=os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW))
            if descriptor is not None:
                try:
                    shutil.rmtree(folder)
                finally:
                    unlock_file(descriptor)
