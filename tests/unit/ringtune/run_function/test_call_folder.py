# SPDX-License-Identifier: Apache-2.0
"""Folders of calls: gone with their call, or with the next one after their caller was killed."""

import tempfile
from pathlib import Path

import pytest

from ringtune.run_function.call_folder import HELD, PREFIX, new_call_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty folder for temporary ones."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_lasts_as_long_as_its_call(place: Path) -> None:
    """Only its owner may enter it."""
    with new_call_folder() as folder:
        assert 0o700 == folder.path.stat().st_mode & 0o777
        assert [folder.path] == list(place.iterdir())

    assert [] == list(place.iterdir())


def test_a_folder_may_lie_elsewhere(place: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    """A call on other hosts lies in a folder that they share."""
    shared = tmp_path_factory.mktemp("shared")
    with new_call_folder(shared) as folder:
        assert shared == folder.path.parent
        assert [] == list(place.iterdir())

    assert [] == list(shared.iterdir())


def test_calls_leave_each_other_s_folders_alone(place: Path) -> None:
    """A call inside of a call, as in two threads or two programs."""
    with new_call_folder() as outer:
        outer.call.write_bytes(b"kept")
        with new_call_folder():
            assert 2 == len(list(place.iterdir()))

        assert b"kept" == outer.call.read_bytes()


def test_what_a_killed_caller_left_is_removed(place: Path) -> None:
    """A killed caller leaves a free lock; a folder without a lock belongs to a caller about to take it."""
    for name, file in (("killed", HELD), ("begun", "call")):
        (place / f"{PREFIX}{name}").mkdir()
        (place / f"{PREFIX}{name}" / file).touch()

    with new_call_folder() as folder:
        assert {f"{PREFIX}begun", folder.path.name} == {path.name for path in place.iterdir()}


def test_folders_behind_links_stay(place: Path) -> None:
    """A name may lead anywhere."""
    elsewhere = place / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / HELD).touch()
    (place / f"{PREFIX}link").symlink_to(elsewhere)

    with new_call_folder():
        pass

    assert (elsewhere / HELD).exists()
