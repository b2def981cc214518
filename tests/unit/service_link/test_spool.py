# SPDX-License-Identifier: Apache-2.0
"""Tests of the spool: a queue on disk that survives its job, is shared, and is bounded."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from ringtune.tuning.service_link import spool as spool_module
from ringtune.tuning.service_link import spool_file as file_module
from ringtune.tuning.service_link.spool import MemoryQueue, Spool
from ringtune.tuning.service_link.spool_file import SpoolFile
from tests.unit.full_disk import no_room_beyond

URL = "http://127.0.0.1:1"


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """A spool whose folder is not there yet."""
    return Spool(tmp_path / "cache", URL)


def left_behind(spool: Spool) -> list[list[bytes]]:
    """Return the files of jobs that have ended."""
    return [file.pending() for file in spool.left_behind()]


def test_what_was_delivered_is_not_pending_any_more(spool: Spool) -> None:
    """In part, then whole; the file is emptied, and takes the next one."""
    file = spool.open("job")
    for payload in (b"a", b"b", b"c"):
        file.append(payload)

    file.delivered(2)

    assert [b"c"] == file.pending()
    file.append(b"d")
    file.delivered(2)
    assert 0 == file.path.stat().st_size
    file.append(b"e")
    assert [b"e"] == file.pending()


def test_what_is_held_back_stays_for_a_later_job(spool: Spool) -> None:
    """A payload that is held back stays in the file alone, whatever is delivered around it, and is not pending."""
    file = spool.open("job")
    for payload in (b"a", b"b", b"c", b"d"):
        file.append(payload)

    file.delivered(1)
    file.hold_back(1)
    file.delivered(1)

    assert [b"d"] == file.pending()
    file.delivered(1)
    assert [] == file.pending()
    file.append(b"e")
    assert [b"e"] == file.pending()
    assert SpoolFile.claim(file.path) is None
    file.delivered(1)
    file.close()
    assert [file.path] == list(spool.folder.iterdir())
    assert [[b"b"]] == left_behind(spool)


def test_an_empty_file_is_removed_when_its_job_ends(spool: Spool) -> None:
    """A spool without undelivered records leaves no file."""
    first, second = spool.open("first"), spool.open("second")
    second.append(b"x")

    first.close()
    second.close()

    assert [second.path] == list(spool.folder.iterdir())


def test_a_running_job_s_file_is_left_alone(spool: Spool) -> None:
    """Files without an owner are taken over, the oldest first, and no others."""
    for number, name in enumerate(("old", "new")):
        file = spool.open(name)
        file.append(name.encode())
        file.close()
        os.utime(file.path, (number, number))
    running = spool.open("running")
    running.append(b"running")

    assert [[b"old"], [b"new"]] == left_behind(spool)


def test_a_file_that_was_delivered_for_another_job_is_removed(spool: Spool) -> None:
    """A delivered file of another job is removed, since it has no owner any more."""
    file = spool.open("dead")
    file.append(b"x")
    file.close()

    for taken in spool.left_behind():
        taken.delivered(1)

    assert [] == list(spool.folder.iterdir())


def _write_and_die(folder: Path) -> None:
    file = Spool(folder, URL).open("killed")
    for number in range(5):
        file.append(b"%d" % number)
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_killed_job_leaves_everything_that_it_wrote(tmp_path: Path) -> None:
    """The lock goes with the process."""
    child = multiprocessing.get_context("fork").Process(target=_write_and_die, args=(tmp_path,))
    child.start()
    child.join(30)

    assert -signal.SIGKILL == child.exitcode
    assert [[b"0", b"1", b"2", b"3", b"4"]] == left_behind(Spool(tmp_path, URL))


def test_services_do_not_share_a_folder(tmp_path: Path) -> None:
    """A record for one service is never sent to another."""
    assert Spool(tmp_path, URL).folder != Spool(tmp_path, "http://127.0.0.1:2").folder


def test_a_torn_file_takes_the_next_record(spool: Spool) -> None:
    """Whole records are pending, before and after another one is added."""
    file = spool.open("job")
    for record in (b"first", b"second"):
        file.append(record)
    file.close()
    os.truncate(file.path, file.path.stat().st_size - 3)

    torn = SpoolFile.claim(file.path)

    assert torn is not None
    assert [b"first"] == torn.pending()
    torn.append(b"next")
    assert [b"first", b"next"] == torn.pending()


def test_a_file_and_the_folder_are_bounded(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record beyond the bound is an error for its writer, and earlier records stay."""
    monkeypatch.setattr(file_module, "MAX_FILE_BYTES", 100)
    monkeypatch.setattr(spool_module, "MAX_FOLDER_BYTES", 50)
    file = spool.open("job")
    file.append(b"x" * 60)

    with pytest.raises(OSError, match="takes no more"):
        file.append(b"y" * 60)
    with pytest.raises(OSError, match="never delivered"):
        spool.open("other")
    assert [b"x" * 60] == file.pending()


def test_a_full_disk_leaves_what_was_there(spool: Spool) -> None:
    """A record that fits in part is taken back."""
    file = spool.open("job")
    file.append(b"first")
    size = file.path.stat().st_size

    with no_room_beyond(size + 10), pytest.raises(OSError, match=r"no room|too large"):
        file.append(b"second")

    assert size == file.path.stat().st_size
    assert [b"first"] == file.pending()


def test_memory_is_bounded_where_there_is_no_folder() -> None:
    """The oldest are kept: they have the baseline."""
    queue = MemoryQueue()
    for number in range(spool_module.MAX_IN_MEMORY):
        queue.append(b"%d" % number)

    with pytest.raises(OSError, match="no room"):
        queue.append(b"one too many")
    queue.delivered(2)

    assert b"2" == queue.pending()[0]
    assert spool_module.MAX_IN_MEMORY - 2 == len(queue.pending())


def test_a_forked_child_does_not_keep_a_closed_file_from_the_next_job(spool: Spool) -> None:
    """Data loaders outlive a world; the world's last reports must be delivered all the same."""
    file = spool.open("job")
    file.append(b"left")
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(reading, 1)  # lives, with a copy of the descriptor, until it is told
        os._exit(0)

    file.close()
    left = left_behind(spool)
    os.write(writing, b"x")
    os.waitpid(child, 0)
    for descriptor in (reading, writing):
        os.close(descriptor)

    assert [[b"left"]] == left
