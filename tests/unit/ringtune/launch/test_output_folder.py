# SPDX-License-Identifier: Apache-2.0
"""`--output-filename`, and the prefixes of lines."""

import re
from pathlib import Path

import pytest

from ringtune.errors import ConfigError
from ringtune.launch.output_folder import OutputFolder
from ringtune.launch.rank_output import line_prefix
from ringtune.launch.rank_streams import STDERR, STDOUT
from tests.unit.full_disk import no_room_beyond


def test_each_stream_has_a_file_whose_name_sorts_like_the_rank(tmp_path: Path) -> None:
    """Names have leading zeros as Horovod's; a silent rank has empty files, and older contents are gone."""
    (tmp_path / "out" / "rank.07").mkdir(parents=True)
    (tmp_path / "out" / "rank.07" / "stdout").write_bytes(b"old")

    folder = OutputFolder(tmp_path / "out", 11)
    folder.take(7, STDOUT, b"\x00half")
    folder.take(7, STDOUT, b" line\r\n")
    folder.take(10, STDERR, b"error\n")

    names = [f"rank.{rank:02d}/{name}" for rank in range(11) for name in ("stderr", "stdout")]
    files = sorted(path for path in (tmp_path / "out").rglob("*") if path.is_file())
    assert names == [str(path.relative_to(tmp_path / "out")) for path in files]
    assert b"\x00half line\r\n" == (tmp_path / "out" / "rank.07" / "stdout").read_bytes()
    assert b"error\n" == (tmp_path / "out" / "rank.10" / "stderr").read_bytes()
    assert b"" == (tmp_path / "out" / "rank.10" / "stdout").read_bytes()


def test_a_folder_that_cannot_be_made_is_an_error_before_anything_starts(tmp_path: Path) -> None:
    """The error names the path that is in the way."""
    (tmp_path / "file").write_bytes(b"")

    with pytest.raises(ConfigError, match=r"--output-filename .*file.* cannot be made"):
        OutputFolder(tmp_path / "file", 2)


def test_a_full_disk_costs_the_rest_and_is_said_once(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The job trains on; its exit code will tell."""
    folder = OutputFolder(tmp_path, 2)

    with no_room_beyond(4096):  # more than the message that is captured
        for rank in range(2):
            folder.take(rank, STDOUT, b"1" * 5000)

    assert b"1" * 4096 == (tmp_path / "rank.0" / "stdout").read_bytes()
    assert folder.loss is not None
    (line,) = capfd.readouterr().err.splitlines()
    assert "rank.0/stdout cannot be written (File too large); the job goes on" in line


def test_a_line_has_its_rank_the_time_both_or_nothing() -> None:
    """The time is asked for each line."""
    stamp = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}[+-]\d\d:\d\d "

    assert b"" == line_prefix(has_rank=False, has_time=False)(3)
    assert b"[3] " == line_prefix(has_rank=True, has_time=False)(3)
    assert re.fullmatch(stamp, line_prefix(has_rank=False, has_time=True)(3))
    assert re.fullmatch(stamp + rb"\[3\] ", line_prefix(has_rank=True, has_time=True)(3))
