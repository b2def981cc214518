# SPDX-License-Identifier: Apache-2.0
"""The lock that lets one search at a time run on a host: its holder, and the events that free it."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ringtune.tuning.job import host_lock as module
from ringtune.tuning.job.host_lock import ANOTHER_JOB, HostLock, default_lock, host_lock

HOLD = """
import sys, time
from pathlib import Path
from ringtune.tuning.job.host_lock import HostLock
lock = HostLock(Path(sys.argv[1]), print)
print(lock.try_take(), flush=True)
time.sleep(600)
"""

FORK = """
import os, sys, time
from pathlib import Path
from ringtune.tuning.job.host_lock import HostLock
lock = HostLock(Path(sys.argv[1]), print)
lock.try_take()
if os.fork() == 0:
    print(os.getpid(), flush=True)
time.sleep(600)
"""


def no_warning(text: str) -> None:
    """Fail, as no warning is expected."""
    pytest.fail(text)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A lock file that does not exist yet, nor does its folder."""
    return tmp_path / "folder" / "tuning.lock"


def test_one_of_two_jobs_has_it(path: Path) -> None:
    """The other gets it once it is released, and both may ask as often as they like."""
    first, second = HostLock(path, no_warning), HostLock(path, no_warning)

    assert [True, True, False, False] == [first.try_take(), first.try_take(), second.try_take(), second.try_take()]
    first.release()
    first.release()
    assert [True, False] == [second.try_take(), first.try_take()]


def test_a_killed_holder_frees_it(path: Path) -> None:
    """`kill -9` is enough, and until then its process id is known."""
    lock = HostLock(path, no_warning)
    with subprocess.Popen([sys.executable, "-c", HOLD, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert "True" == holder.stdout.readline().strip()
        is_taken, name = lock.try_take(), lock.holder()
        holder.send_signal(signal.SIGKILL)
        holder.wait(60)

    assert not is_taken
    assert f"{ANOTHER_JOB} (pid {holder.pid})" == name
    assert lock.try_take()


def test_a_forked_child_does_not_hold_it_for_its_parent(path: Path) -> None:
    """A data loader's worker lives on after its rank was killed, and while it is being forked the lock is released."""
    lock = HostLock(path, no_warning)
    with subprocess.Popen([sys.executable, "-c", FORK, str(path)], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        is_taken = lock.try_take()
        holder.kill()
        holder.wait(60)
        is_free = lock.try_take()
        os.kill(child, signal.SIGKILL)

    assert (False, True) == (is_taken, is_free)


def test_two_models_of_one_process_take_turns(path: Path) -> None:
    """The second is told that it waits for the first, not for another job."""
    first, second = HostLock(path, no_warning), HostLock(path, no_warning)

    assert (True, False) == (first.try_take(), second.try_take())
    assert "another model of this job, whose tuner was not closed," == second.holder()


def test_a_file_that_was_removed_is_made_anew(path: Path) -> None:
    """A cleaner of temporary files takes it from its holder; the next ones agree again."""
    first, second, third = (HostLock(path, no_warning) for _ in range(3))
    assert first.try_take()
    path.unlink()

    assert [True, False] == [second.try_take(), third.try_take()]


def test_only_its_user_can_read_it(path: Path) -> None:
    """Folder and file are private, whatever the umask."""
    before = os.umask(0)
    try:
        assert HostLock(path, no_warning).try_take()
    finally:
        os.umask(before)

    assert (0o700, 0o600) == (stat.S_IMODE(path.parent.stat().st_mode), stat.S_IMODE(path.stat().st_mode))


@pytest.mark.parametrize("obstacle", ["link", "pipe", "folder", "parent"])
def test_a_file_that_cannot_be_used_costs_one_warning(path: Path, obstacle: str) -> None:
    """The job tunes without turns, and does not wait."""
    if obstacle == "parent":
        path.parent.write_text("a file")
    else:
        path.parent.mkdir()
        if obstacle == "link":
            path.symlink_to("elsewhere")
        elif obstacle == "pipe":
            os.mkfifo(path)
        else:
            path.mkdir()
    warnings: list[str] = []
    lock = HostLock(path, warnings.append)

    assert [True, True] == [lock.try_take(), lock.try_take()]
    lock.release()
    assert 1 == len(warnings)
    assert str(path) in warnings[0]
    assert "AUTOTUNE_LOCK" in warnings[0]


def test_a_folder_of_another_user_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody may make folders in the shared one: a link with this user's name is not followed."""
    monkeypatch.setattr(module, "SHARED_FOLDER", tmp_path)
    (tmp_path / "foreign").mkdir()
    default_lock().parent.symlink_to(tmp_path / "foreign")
    warnings: list[str] = []

    assert HostLock(default_lock(), warnings.append).try_take()
    assert "belongs to another user" in warnings[0]
    assert not (tmp_path / "foreign" / default_lock().name).exists()


def test_it_can_be_switched_off(path: Path) -> None:
    """AUTOTUNE_LOCK=0: jobs tune beside each other."""
    assert all(host_lock("0", no_warning).try_take() for _ in range(2))
    assert [True, False] == [lock.try_take() for lock in [host_lock(str(path), no_warning) for _ in range(2)]]


def test_a_job_that_does_not_tune_registers_nothing_for_its_forks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python keeps such functions for ever: an elastic job of many worlds would grow by one for each."""
    registered: list[object] = []
    monkeypatch.setattr(os, "register_at_fork", lambda **functions: registered.append(functions))

    lock = HostLock(tmp_path / "lock", no_warning)
    assert [] == registered

    for _ in range(3):
        assert lock.try_take()
        lock.release()
    assert 1 == len(registered)
