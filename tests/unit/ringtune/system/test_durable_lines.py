# SPDX-License-Identifier: Apache-2.0
"""Lines survive a kill at any byte, a full disk, and other people's links."""

import os
from pathlib import Path

import pytest

from ringtune.system.durable_lines import append_lines, append_to, open_for_appending, whole_lines
from tests.unit.full_disk import no_room_beyond

LINES = b'{"n":1}\n{"n":2}\n{"n":3}\n'


def append(path: Path, lines: bytes, *, is_alone: bool = False) -> None:
    """Append lines to a file."""
    descriptor = open_for_appending(path, 0o600)
    try:
        append_lines(descriptor, lines, is_alone=is_alone)
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("is_alone", [False, True])
def test_torn_at_any_byte_it_takes_the_next_line(tmp_path: Path, is_alone: bool) -> None:
    """The lines before the torn one are unchanged, and those that follow are whole."""
    path = tmp_path / "lines"
    for cut in range(len(LINES) + 1):
        torn = LINES[:cut]
        path.write_bytes(torn)

        append(path, b"new\n", is_alone=is_alone)

        end = b"" if not torn or torn.endswith(b"\n") else b"\n"
        assert torn + end + b"new\n" == path.read_bytes(), cut
        assert whole_lines(torn) == b"".join(torn.splitlines(keepends=True)[: torn.count(b"\n")])


def test_without_lines_only_a_torn_one_is_ended(tmp_path: Path) -> None:
    """A file that is empty or ends with a whole line stays as it is."""
    for content, expected in ((b"", b""), (b"a\n", b"a\n"), (b"a\nb", b"a\nb\n")):
        (tmp_path / "lines").write_bytes(content)

        append(tmp_path / "lines", b"")

        assert expected == (tmp_path / "lines").read_bytes()


def test_a_line_for_which_there_is_no_room_is_torn_or_taken_back(tmp_path: Path) -> None:
    """A process that is alone leaves the file as it was; another one may have written behind its part of a line."""
    shared, own, kept = tmp_path / "shared", tmp_path / "own", tmp_path / "kept"
    for path in (shared, own, kept):
        path.write_bytes(b"first\n")

    with no_room_beyond(10):
        with pytest.raises(OSError, match="only 4 of 9 bytes could be written: there is no room for more"):
            append(shared, b"a second\n")
        with pytest.raises(OSError, match="no room"):
            append(own, b"a second\n", is_alone=True)
        with pytest.raises(OSError, match="no room"):
            append_to(kept, "a second")
    append(shared, b"third\n")

    assert (b"first\na se\nthird\n", b"first\n", b"first\n") == tuple(p.read_bytes() for p in (shared, own, kept))


def test_a_pipe_takes_lines_as_they_come() -> None:
    """A log may be `/dev/stdout`."""
    reader, writer = os.pipe()

    append_lines(writer, b"one\n")
    append_lines(writer, b"")
    append_lines(writer, b"two\n")
    os.close(writer)

    with os.fdopen(reader, "rb") as pipe:
        assert b"one\ntwo\n" == pipe.read()


@pytest.mark.parametrize("mode", [0o1777, 0o777])
def test_a_link_in_a_shared_folder_is_not_followed(tmp_path: Path, mode: int) -> None:
    """Neither in one whose files only their owner may remove nor in any other that everybody may write to."""
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(mode)
    (folder / "lines").symlink_to(tmp_path / "precious")

    with pytest.raises(OSError, match="a link in a folder that everybody may write to"):
        append_to(folder / "lines", "new")
    assert not (tmp_path / "precious").exists()

    folder.chmod(0o700)
    append_to(folder / "lines", "new")
    assert b"new\n" == (tmp_path / "precious").read_bytes()
