# SPDX-License-Identifier: Apache-2.0
"""Files that commands write are whole, and never another user's choice."""

import os
import stat
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.output_folder import OutputFolder
from ringtune.system.output_files import write_output_file


@pytest.fixture(params=[0o1777, 0o777])
def shared(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """Return a folder where everybody may create files."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(request.param)
    return folder


def names_in(folder: Path) -> list[str]:
    """Return the names in a folder."""
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("exists", [True, False])
def test_a_link_in_a_shared_folder_is_not_followed(tmp_path: Path, shared: Path, exists: bool) -> None:
    """Neither is its target overwritten, nor made where the link dangles."""
    target = tmp_path / "precious"
    if exists:
        target.write_text("precious", encoding="utf-8")
    (shared / "report.html").symlink_to(target)

    with pytest.raises(OSError, match="a link in a folder that everybody may write to"):
        write_output_file(shared / "report.html", b"new")

    assert (exists, ["report.html"]) == (target.exists(), names_in(shared))
    assert not exists or target.read_text(encoding="utf-8") == "precious"


def test_a_file_is_replaced_as_a_whole(shared: Path) -> None:
    """The file keeps its permissions; a reader that has the old file open goes on reading that."""
    file = shared / "report.html"
    file.write_bytes(b"old")
    file.chmod(0o600)

    with file.open("rb") as reader:
        write_output_file(file, b"new")
        old = reader.read()

    assert (b"old", b"new", 0o600) == (old, file.read_bytes(), stat.S_IMODE(file.stat().st_mode))
    assert ["report.html"] == names_in(shared)


def test_a_link_of_ones_own_stays(tmp_path: Path) -> None:
    """Its target is written."""
    tmp_path.chmod(0o700)
    (tmp_path / "latest.html").symlink_to(tmp_path / "today.html")

    write_output_file(tmp_path / "latest.html", b"new")

    assert (True, b"new") == ((tmp_path / "latest.html").is_symlink(), (tmp_path / "today.html").read_bytes())


def test_a_pipe_gets_the_content(tmp_path: Path) -> None:
    """Names such as `/dev/stdout` lead to one."""
    reader, writer = os.pipe()

    write_output_file(Path(f"/proc/self/fd/{writer}"), b"new")
    os.close(writer)

    with os.fdopen(reader, "rb") as pipe:
        assert b"new" == pipe.read()


def test_ranks_write_through_no_link(tmp_path: Path) -> None:
    """Names in the folder of the ranks' output are ours; a link there was made by somebody else."""
    (tmp_path / "rank.0").mkdir()
    precious = tmp_path / "precious"
    precious.write_text("precious", encoding="utf-8")
    (tmp_path / "rank.0" / "stdout").symlink_to(precious)

    with pytest.raises(ConfigError, match=r"rank\.0/stdout cannot be made"):
        OutputFolder(tmp_path, 1)

    assert "precious" == precious.read_text(encoding="utf-8")
