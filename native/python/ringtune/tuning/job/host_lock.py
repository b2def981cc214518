# SPDX-License-Identifier: Apache-2.0
"""Host lock: one search at a time per user and host, for searches measure each other.

It is an exclusive `flock` on a small file. The kernel releases it with its holder, however that ends. Jobs that do not
see the same file, such as those in containers of their own, do not see each other.
"""

import errno
import os
import stat
import threading
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ringtune.system.file_lock import lock_file, unlock_file

OFF = "0"
FILE_NAME = "tuning.lock"
SHARED_FOLDER = Path("/tmp")  # noqa: S108  (checked in `_make_folder`; TMPDIR may be another one for each job)
ANOTHER_JOB = "another job of this host"
MAX_HOLDER_BYTES = 128


def default_lock() -> Path:
    """Return the lock file of this user on this host."""
    return SHARED_FOLDER / f"ringtune-{os.geteuid()}" / FILE_NAME


class HostLock:
    """The lock, for one job; see `ringtune.tuner.policy.turn.Turn`. Safe to use from any thread."""

    def __init__(self, path: Path, warn: Callable[[str], None], job: str = "") -> None:
        """Use the lock file at `path`, which the first attempt opens.

        Args:
            path: Created with its folder, for this user alone, where it does not exist.
            warn: Shows a warning to people, once, if the file cannot be used; the job then does not wait for a turn.
            job: Name of a job that counts as several hosts on one machine, which have one lock; empty elsewhere.
        """
        self._path = path
        self._job = job
        self._warn = warn
        self._lock = threading.Lock()  # guards _descriptor and _is_useless
        self._descriptor: int | None = None
        self._is_useless = False
        self._is_registered = False

    def try_take(self) -> bool:
        """Return whether this job holds the lock now, or the lock cannot be used."""
        with self._lock:
            if self._descriptor is None and not self._is_useless:
                try:
                    self._register()
                    self._descriptor = _locked(self._path, f"{os.getpid()} {self._job}".rstrip())
                except OSError as error:
                    self._is_useless = True
                    self._warn(
                        f"jobs of this host cannot take turns at tuning: {self._path}: {error.strerror or error}; set "
                        "AUTOTUNE_LOCK to a file that can be written, or to 0"
                    )
            return self._descriptor is not None or self._is_useless or self._is_of_this_job()

    def release(self) -> None:
        """Give the lock up; idempotent."""
        with self._lock:
            if self._descriptor is not None:
                with suppress(OSError):
                    os.ftruncate(self._descriptor, 0)  # the next holder is not taken for this one before it has signed
                unlock_file(self._descriptor)
                self._descriptor = None

    def holder(self) -> str:
        """Return the name of the job that holds the lock, for people, with its process id if that is known."""
        pid, _, _ = _holder(self._path).partition(" ")
        if pid == str(os.getpid()):
            return "another model of this job, whose tuner was not closed,"
        return f"{ANOTHER_JOB} (pid {pid})" if pid.isdecimal() else ANOTHER_JOB

    def _is_of_this_job(self) -> bool:
        """Return whether another process of this job holds the lock, on another of the job's hosts on this machine."""
        return bool(self._job) and _holder(self._path).partition(" ")[2] == self._job

    def _register(self) -> None:
        """Have forked children abandon the lock, which they may inherit once it was asked for.

        Python keeps registrations for the life of the process, so only a job that asks makes one.
        """
        if not self._is_registered:
            self._is_registered = True
            reference = weakref.WeakMethod(self._abandon)
            os.register_at_fork(after_in_child=lambda: _call(reference))

    def _abandon(self) -> None:
        """Close the descriptor in a forked child, which would hold the lock beyond this job's end."""
        self._lock = threading.Lock()
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class NoLock:
    """The turn of a job that takes none: `AUTOTUNE_LOCK=0`."""

    def try_take(self) -> bool:
        """Return True."""
        return True

    def release(self) -> None:
        """Ignore it: the lock is never taken."""

    def holder(self) -> str:
        """Return the name of any other job."""
        return ANOTHER_JOB


def host_lock(setting: str | None, warn: Callable[[str], None], job: str = "") -> HostLock | NoLock:
    """Return the lock that `AUTOTUNE_LOCK` asks for: None is this user's own, `0` is none; `job` as in `HostLock`."""
    return NoLock() if setting == OFF else HostLock(default_lock() if setting is None else Path(setting), warn, job)


def _call(reference: "weakref.WeakMethod[Callable[[], None]]") -> None:
    method = reference()
    if method is not None:
        method()


def _holder(path: Path) -> str:
    """Return the text that the newest holder has written: its process id, and its job where it has a name; or ""."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return ""
    try:
        return os.read(descriptor, MAX_HOLDER_BYTES).decode("ascii", "replace").strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def _locked(path: Path, holder: str) -> int | None:
    """Return the descriptor of the locked file, with the holder's name in it; None while another holds it.

    Raises:
        OSError: If the file cannot be used: another user's, a link, a device.
    """
    _make_folder(path.parent)
    descriptor = lock_file(path)
    if descriptor is not None:
        try:
            os.ftruncate(descriptor, 0)
            os.write(descriptor, f"{holder}\n".encode())
        except OSError:
            unlock_file(descriptor)
            raise
    return descriptor


def _make_folder(folder: Path) -> None:
    """Make the default folder; refuse one that another user has put into its place."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if folder == default_lock().parent:
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise OSError(errno.EPERM, f"{folder} belongs to another user")
