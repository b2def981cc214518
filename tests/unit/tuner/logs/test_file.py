# SPDX-License-Identifier: Apache-2.0
"""Files of logs: reading ends, links of strangers are not followed, and other files are not appended to."""

import errno
import os
import random
import stat
import threading
from pathlib import Path

import pytest

from ringtune.tuner import open_log, read_log
from ringtune.tuner.logs import file as log_file
from ringtune.tuner.logs.records import EndRecord
from ringtune.tuner.logs.store import StudyStore
from ringtune.tuner.review import review_log

RECORD = EndRecord(1.0, "run-1", "ended early")


def log_of(path: Path) -> bytes:
    """Write one record to a log and return the file's bytes."""
    log = open_log(path)
    log.write(RECORD)
    log.close()
    return path.read_bytes()


@pytest.mark.parametrize("name", ["tune.jsonl", "tune.csv"])
@pytest.mark.parametrize("content", [b"precious\n", b"\0" * 5000, b"a,b,c\n1,2,3\n", b"{}\n", os.urandom(200_000)])
def test_nothing_is_appended_to_something_else(name: str, content: bytes, tmp_path: Path) -> None:
    """A file that is no tuning log stays as it is; a log of either kind is no log of the other."""
    path = tmp_path / name
    path.write_bytes(content)

    with pytest.raises(OSError, match="something else than a tuning log"):
        open_log(path)
    with pytest.raises(OSError, match="something else than a tuning log"):
        StudyStore(path).keep([RECORD])

    assert content == path.read_bytes()


@pytest.mark.parametrize("cut", [1, 5, 9, 30])
def test_a_log_whose_first_line_was_torn_goes_on(cut: int, tmp_path: Path) -> None:
    """A log that was killed at any byte, or lost its first line, goes on."""
    path = tmp_path / "tune.jsonl"
    whole = log_of(path)
    path.write_bytes(whole[:cut])

    assert whole[:cut] + b"\n" + whole == log_of(path)
    path.write_bytes(b"\0\0\0\n" + whole)
    assert log_of(path).endswith(2 * whole)


@pytest.mark.parametrize("name", ["tune.jsonl", "tune.csv"])
def test_a_link_in_a_shared_folder_is_not_followed(name: str, tmp_path: Path) -> None:
    """A link of somebody else in a shared folder is not followed; links in an own folder are."""
    target, path = tmp_path / "target", tmp_path / "shared" / name
    path.parent.mkdir()
    path.symlink_to(target)
    path.parent.chmod(0o1777)

    with pytest.raises(OSError, match="a link in a folder that everybody may write to"):
        open_log(path)
    with pytest.raises(OSError, match="a link in a folder that everybody may write to"):
        StudyStore(path).keep([RECORD])
    assert not target.exists()

    path.parent.chmod(0o700)
    open_log(path).close()
    assert target.exists()


def test_a_log_is_made_as_the_umask_says_and_a_memory_for_its_owner(tmp_path: Path) -> None:
    """A log is shown to others: 0644 less the umask; a memory is not: 0600."""
    before = os.umask(0o027)
    try:
        open_log(tmp_path / "tune.jsonl").close()
        StudyStore(tmp_path / "memory.jsonl").keep([RECORD])
    finally:
        os.umask(before)

    modes = [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("tune.jsonl", "memory.jsonl")]
    assert [0o640, 0o600] == modes


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/urandom", "/dev/tty", "/proc/kcore", "/proc/self/mem"])
def test_what_has_no_end_is_an_error_that_names_it(path: str) -> None:
    """Devices, and files that are as large as memory: review, resuming and memory end at once."""
    for read in (review_log, read_log):
        with pytest.raises(OSError, match=r".+") as caught:
            read(path)
        assert path == caught.value.filename
        assert caught.value.strerror


def test_a_pipe_is_reviewed_as_long_as_something_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`ringtune review <(zcat log.gz)` works; a pipe that is silent, or never ends, is an error that names it."""
    log_of(tmp_path / "tune.jsonl")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes((tmp_path / "tune.jsonl").read_bytes()))
    writer.start()
    assert 0 == review_log(pipe).bad_line_count
    writer.join()

    monkeypatch.setattr(log_file, "PIPE_IDLE_S", 0.05)
    with pytest.raises(OSError, match="nothing came for 0.05 s") as silent:
        review_log(pipe)
    assert str(pipe) == silent.value.filename
    with pytest.raises(OSError, match="no regular file"):
        read_log(pipe)

    monkeypatch.setattr(log_file, "MAX_BYTES", 1 << 20)
    monkeypatch.setattr(log_file, "PIPE_IDLE_S", 30.0)

    def write_for_ever() -> None:
        with pipe.open("wb", buffering=0) as endless:
            try:
                while True:
                    endless.write(b"x" * 4096)
            except BrokenPipeError:
                return

    writer = threading.Thread(target=write_for_ever)
    writer.start()
    with pytest.raises(OSError, match="which no tuning log has") as caught:
        review_log(pipe)
    writer.join()
    assert errno.EFBIG == caught.value.errno


@pytest.mark.parametrize("seed", range(20))
def test_a_memory_with_flipped_bits_or_an_end_that_is_missing_is_read_as_far_as_it_is_one(
    seed: int, tmp_path: Path
) -> None:
    """Reading damaged bytes ends without an error, and a run that is kept next is there afterwards."""
    path = tmp_path / "memory.jsonl"
    for _ in range(30):
        log_of(path)
    dice = random.Random(seed)
    content = bytearray(path.read_bytes())
    for _ in range(dice.randrange(1, 100)):
        content[dice.randrange(len(content))] ^= 1 << dice.randrange(8)
    path.write_bytes(content[: dice.randrange(500, len(content))])

    read_log(path)
    StudyStore(path).keep([RECORD])

    assert any(run.run_id == "run-1" and run.end == RECORD for run in read_log(path).runs)
