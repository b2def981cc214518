# SPDX-License-Identifier: Apache-2.0
"""A file is there whole, or not at all."""

import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from ringtune.system.whole_file import replace_whole, whole_file


def write(path: Path, content: bytes = b"new", mode: int | None = None, **options: bool) -> None:
    """Write a whole file."""
    with whole_file(path, mode, **options) as file:
        file.write(content)


@pytest.mark.parametrize("is_synced", [False, True])
@pytest.mark.parametrize("is_new", [False, True])
def test_a_whole_file_is_there_under_its_name_alone(tmp_path: Path, is_new: bool, is_synced: bool) -> None:
    """A complete file has every byte, and no other file lies beside it."""
    write(tmp_path / "all", b"one\ntwo\n", is_new=is_new, is_synced=is_synced)

    assert ["all"] == [path.name for path in tmp_path.iterdir()]
    assert b"one\ntwo\n" == (tmp_path / "all").read_bytes()


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
@pytest.mark.parametrize("mode", [None, 0o600, 0o755])
def test_a_file_has_the_permissions_that_were_asked_for(tmp_path: Path, mode: int | None, umask: int) -> None:
    """The umask acts on a file without asked permissions alone."""
    before = os.umask(umask)
    try:
        write(tmp_path / "all", mode=mode, is_new=True)
    finally:
        os.umask(before)

    expected = 0o666 & ~umask if mode is None else mode
    assert expected == stat.S_IMODE((tmp_path / "all").stat().st_mode)


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("bug")])
def test_what_fails_in_the_middle_leaves_nothing(error: BaseException, tmp_path: Path, is_new: bool) -> None:
    """A failure of any kind leaves no file, also after more than a buffer was written."""

    def fail() -> None:
        with whole_file(tmp_path / "all", is_new=is_new) as file:
            file.write(b"x" * 1_000_000)
            raise error

    with pytest.raises(type(error)):
        fail()

    assert [] == list(tmp_path.iterdir())


def test_the_old_file_stays_until_the_new_one_is_complete(tmp_path: Path) -> None:
    """A reader meets the old content or the new one; a link is replaced, and its target stays."""
    (tmp_path / "target").write_bytes(b"old")
    (tmp_path / "all").symlink_to(tmp_path / "target")

    with whole_file(tmp_path / "all") as file:
        file.write(b"new")
        file.flush()
        meanwhile = (tmp_path / "all").read_bytes()

    assert (b"old", b"new", b"old") == (meanwhile, (tmp_path / "all").read_bytes(), (tmp_path / "target").read_bytes())


def test_a_new_file_replaces_none(tmp_path: Path) -> None:
    """An existing file is noticed before anything is written, and also if it comes meanwhile."""
    there, meanwhile = tmp_path / "there", tmp_path / "meanwhile"
    there.write_text("mine", encoding="utf-8")

    with pytest.raises(FileExistsError), whole_file(there, is_new=True):
        pytest.fail("it was written")
    with pytest.raises(FileExistsError), whole_file(meanwhile, is_new=True):
        meanwhile.write_text("theirs", encoding="utf-8")

    assert {"there": "mine", "meanwhile": "theirs"} == {
        path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()
    }


@pytest.mark.parametrize("is_new", [False, True])
def test_a_name_that_cannot_be_given_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_new: bool
) -> None:
    """A failed rename leaves neither the contents nor an empty file."""

    def fail(_self: Path, _target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)

    with pytest.raises(OSError, match="Input/output"):
        write(tmp_path / "all", is_new=is_new)

    assert [] == list(tmp_path.iterdir())


def test_a_synced_file_is_on_the_disk_before_it_has_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the content, then the name."""
    synced: list[str] = []
    sync: Callable[[int], None] = os.fsync

    def note(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", note)

    write(tmp_path / "all", is_synced=True)

    scratch, folder = synced
    assert scratch.startswith(f"{tmp_path}/.all.")
    assert str(tmp_path) == folder


def test_the_status_is_that_of_the_new_file(tmp_path: Path) -> None:
    """A writer can tell its file from one that another process puts there later."""
    status = replace_whole(tmp_path / "all", b"new")

    assert os.path.samestat(status, (tmp_path / "all").stat())
    assert 3 == status.st_size
