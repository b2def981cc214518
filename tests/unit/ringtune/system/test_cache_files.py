# SPDX-License-Identifier: Apache-2.0
"""Files whose users are never made to wait."""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtune.system.cache_files import read_regular_file, within
from ringtune.world.algorithm_tables import store
from ringtune.world.algorithm_tables.store import TableFileError, read_table


@pytest.fixture
def hang() -> Iterator[threading.Event]:
    """Return an event that is set only at the end: a thread that waits for it hangs."""
    event = threading.Event()
    yield event
    event.set()


def test_an_action_that_hangs_is_left_behind(hang: threading.Event) -> None:
    """The error is an OSError that names a possible cause; a result in time is returned."""
    assert 3 == within(60.0, lambda: 3)
    with pytest.raises(OSError, match="no answer within 0.05 s; does a network file system hang"):
        within(0.05, hang.wait)


def test_a_table_that_hangs_is_an_unreadable_one(
    tmp_path: Path, hang: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A home that does not answer costs a measurement, not the job."""
    monkeypatch.setattr(store, "START_LIMIT_S", 0.05)
    monkeypatch.setattr(store, "read_regular_file", lambda _path, _max_bytes: hang.wait())

    with pytest.raises(TableFileError, match=r"table\.json cannot be read \(no answer within 0\.05 s"):
        read_table(tmp_path / "table.json")


@pytest.mark.parametrize("kind", ["pipe", "device", "folder"])
def test_only_regular_files_are_read(tmp_path: Path, kind: str) -> None:
    """Opening a named pipe does not wait, and a device without end is not begun."""
    path = {"pipe": tmp_path / "pipe", "device": Path("/dev/zero"), "folder": tmp_path}[kind]
    if kind == "pipe":
        os.mkfifo(path)

    with pytest.raises(OSError, match="no regular file|Is a directory"):
        read_regular_file(path, 100)


def test_no_more_is_read_than_is_allowed(tmp_path: Path) -> None:
    """A foreign file may be as large as it likes."""
    (tmp_path / "file").write_bytes(b"x" * 1000)

    assert b"x" * 10 == read_regular_file(tmp_path / "file", 10)
