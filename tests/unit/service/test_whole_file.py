# SPDX-License-Identifier: Apache-2.0
"""A file is there whole, or not at all."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from ringtune.service.whole_file import write_whole


def test_a_whole_file_is_there_under_its_name_alone(tmp_path: Path) -> None:
    """A complete file has every line, and no file lies beside it."""
    write_whole(tmp_path / "all.jsonl", ["one\n", "two\n"])

    assert ["all.jsonl"] == [path.name for path in tmp_path.iterdir()]
    assert "one\ntwo\n" == (tmp_path / "all.jsonl").read_text(encoding="utf-8")


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o277])
def test_a_whole_file_is_for_its_owner_alone(tmp_path: Path, umask: int) -> None:
    """An export tells names, places and models; the umask can only take permissions away."""
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "all.jsonl", ["one\n"])
    finally:
        os.umask(before)

    assert 0o600 & ~umask == stat.S_IMODE((tmp_path / "all.jsonl").stat().st_mode)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt(), ValueError("bug")])
def test_a_failure_in_the_middle_leaves_no_file(error: BaseException, tmp_path: Path) -> None:
    """A failure of any kind leaves no file, also after more than a buffer was written."""

    def lines() -> Iterator[str]:
        yield from ("x" * 1000 for _ in range(1000))
        raise error

    with pytest.raises(type(error)):
        write_whole(tmp_path / "all.jsonl", lines())

    assert [] == list(tmp_path.iterdir())


def test_a_file_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    """An existing file is noticed before anything is read, and also if it comes meanwhile."""
    there, meanwhile = tmp_path / "there.jsonl", tmp_path / "meanwhile.jsonl"
    there.write_text("mine", encoding="utf-8")

    def somebody_else_is_faster() -> Iterator[str]:
        yield "one\n"
        meanwhile.write_text("theirs", encoding="utf-8")

    with pytest.raises(FileExistsError):
        write_whole(there, iter(lambda: pytest.fail("it was read"), ""))
    with pytest.raises(FileExistsError):
        write_whole(meanwhile, somebody_else_is_faster())

    assert {"there.jsonl": "mine", "meanwhile.jsonl": "theirs"} == {
        path.name: path.read_text(encoding="utf-8") for path in tmp_path.iterdir()
    }


def test_a_name_that_cannot_be_given_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed rename leaves neither the contents nor an empty file."""

    def fail(_self: Path, _target: Path) -> Path:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(Path, "replace", fail)

    with pytest.raises(OSError, match="Input/output"):
        write_whole(tmp_path / "all.jsonl", ["one\n"])

    assert [] == list(tmp_path.iterdir())
