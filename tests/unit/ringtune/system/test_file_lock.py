# SPDX-License-Identifier: Apache-2.0
"""Locks on files: one holder, on the file that has the name, freed whatever becomes of the holder."""

import os
import signal
import threading
from pathlib import Path

import pytest

from ringtune.system.file_lock import lock_file, open_private, replace_locked, unlock_file


def locked(path: Path) -> int:
    """Lock a file that is free."""
    descriptor = lock_file(path)
    assert descriptor is not None
    return descriptor


def count_descriptors() -> int:
    """Return the number of open descriptors of this process."""
    return len(list(Path("/proc/self/fd").iterdir()))


def test_one_holder_at_a_time(tmp_path: Path) -> None:
    """The next one gets the lock once it is released; the file is its owner's alone."""
    first = locked(tmp_path / "lock")

    assert lock_file(tmp_path / "lock") is None
    unlock_file(first)
    second = locked(tmp_path / "lock")
    assert 0o600 == os.fstat(second).st_mode & 0o777
    unlock_file(second)


def test_a_waiting_caller_gets_it_afterwards(tmp_path: Path) -> None:
    """A caller that waits is served when the holder releases the lock, not before."""
    first, order = locked(tmp_path / "lock"), []
    is_opened = threading.Event()

    def open_and_tell(path: Path) -> int:
        is_opened.set()
        return open_private(path)

    def wait() -> None:
        descriptor = lock_file(tmp_path / "lock", open_and_tell, is_waiting=True)
        order.append("second")
        assert descriptor is not None
        unlock_file(descriptor)

    waiter = threading.Thread(target=wait)
    waiter.start()
    assert is_opened.wait(60)
    order.append("first")
    unlock_file(first)
    waiter.join(60)

    assert ["first", "second"] == order


@pytest.mark.parametrize("is_replaced", [False, True])
def test_a_file_that_lost_its_name_is_opened_again(tmp_path: Path, is_replaced: bool) -> None:
    """A lock on a file that was removed or replaced after its opening locks no process out."""
    path = tmp_path / "lock"
    opened: list[int] = []

    def open_late(path: Path) -> int:
        descriptor = open_private(path)
        if not opened:
            path.unlink()
            if is_replaced:
                path.write_bytes(b"another")
        opened.append(descriptor)
        return descriptor

    descriptor = lock_file(path, open_late)

    assert descriptor is not None
    assert 2 == len(opened)
    assert os.path.samestat(os.fstat(descriptor), path.stat())
    assert lock_file(path) is None
    unlock_file(descriptor)


@pytest.mark.parametrize("obstacle", ["pipe", "folder", "link", "device"])
def test_only_a_regular_file_is_locked(tmp_path: Path, obstacle: str) -> None:
    """Anything else is an error, and leaves no descriptor open."""
    path = Path("/dev/null") if obstacle == "device" else tmp_path / "lock"
    if obstacle == "pipe":
        os.mkfifo(path)
    elif obstacle == "folder":
        path.mkdir()
    elif obstacle == "link":
        path.symlink_to(tmp_path / "elsewhere")
    before = count_descriptors()

    with pytest.raises(OSError, match="no regular file|Is a directory|symbolic links"):
        lock_file(path)

    assert before == count_descriptors()


def test_a_forked_child_does_not_keep_a_released_lock(tmp_path: Path) -> None:
    """The child shares the open file for as long as it lives."""
    descriptor = locked(tmp_path / "lock")
    child = os.fork()
    if child == 0:
        signal.pause()

    unlock_file(descriptor)
    again = lock_file(tmp_path / "lock")
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    assert again is not None
    unlock_file(again)


def test_a_new_file_is_locked_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No other process gets the lock of the replacement, and its descriptor appends."""
    path, meanwhile = tmp_path / "lock", []
    path.write_bytes(b"old")
    rename = Path.replace

    def rename_watched(beside: Path, target: Path) -> Path:
        meanwhile.append(lock_file(beside))
        return rename(beside, target)

    monkeypatch.setattr(Path, "replace", rename_watched)

    descriptor = replace_locked(path, b"new")

    assert [None] == meanwhile
    assert lock_file(path) is None
    os.write(descriptor, b", and more")
    assert b"new, and more" == path.read_bytes()
    unlock_file(descriptor)


def test_a_replacement_that_fails_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No descriptor is left open either."""
    (tmp_path / "lock").write_bytes(b"old")
    before = count_descriptors()

    def fail(_beside: Path, _target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)

    with pytest.raises(OSError, match="Input/output"):
        replace_locked(tmp_path / "lock", b"new")

    assert {"lock": b"old"} == {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert before == count_descriptors()
