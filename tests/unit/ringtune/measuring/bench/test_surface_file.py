# SPDX-License-Identifier: Apache-2.0
"""The journal of a recording, and the file that it becomes."""

import gzip
from pathlib import Path

import pytest

from ringtune.errors import ConfigError, RingtuneError
from ringtune.measuring.bench.surface_file import SCHEMA, RecordedWindow, SurfaceJournal, read_surface, write_surface
from tests.unit.full_disk import no_room_beyond

HEADER = {"schema": SCHEMA, "workload": "w", "repeats": 2, "calls": []}
CALLS = [[1024, 1e-6], [2048, 2e-6]]
FIRST = RecordedWindow(0, 0, 0, 0.0, (1.5, 2.0), is_extra=True)
SECOND = RecordedWindow(1, 0, 0, 1.25, (3.0, 4.0))


def begun(path: Path) -> SurfaceJournal:
    """Return a journal with two windows."""
    journal = SurfaceJournal(path, HEADER)
    journal.begin(CALLS)
    journal.add(FIRST)
    journal.add(SECOND)
    return journal


def test_a_recording_goes_on_where_it_stood(tmp_path: Path) -> None:
    """A resumed recording keeps the calls of its first start; an extra baseline window is not the grid's."""
    begun(tmp_path / "j")

    journal = SurfaceJournal(tmp_path / "j", HEADER)

    assert [FIRST, SECOND] == journal.windows
    assert {1} == journal.done(0)
    assert set() == journal.done(1)
    assert 1 == journal.launches
    assert CALLS == journal.header["calls"]


def test_a_torn_line_is_dropped(tmp_path: Path) -> None:
    """A line torn by a kill is dropped, and the next one is whole."""
    begun(tmp_path / "j")
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole[:-3])

    SurfaceJournal(tmp_path / "j", HEADER).add(SECOND)

    assert [FIRST, SECOND] == SurfaceJournal(tmp_path / "j", HEADER).windows


def test_a_torn_header_begins_anew(tmp_path: Path) -> None:
    """A file that ends in its header has no windows."""
    (tmp_path / "j").write_text('{"schema":1,"wor')

    begun(tmp_path / "j")

    assert [FIRST, SECOND] == SurfaceJournal(tmp_path / "j", HEADER).windows


@pytest.mark.parametrize(
    "contents",
    [
        b"no journal",
        b"no journal\nat all",
        b"\x00\xff\n",
        b"[1]\n",
        b'{"schema":1}\n{"x":1}\n',
        b'{"schema":1}\n7\n{"nu',
    ],
)
def test_a_file_that_is_no_journal_is_refused_as_it_is(tmp_path: Path, contents: bytes) -> None:
    """A foreign file may be somebody's: it is neither cut off nor removed."""
    (tmp_path / "j").write_bytes(contents)

    with pytest.raises(ConfigError, match="is no journal of a recording, or is damaged; give another file, or remove"):
        SurfaceJournal(tmp_path / "j", {"schema": SCHEMA})

    assert contents == (tmp_path / "j").read_bytes()


def test_another_recording_stays_as_it_is(tmp_path: Path) -> None:
    """The refusal names the field that differs; the torn line stays until that recording goes on."""
    begun(tmp_path / "j")
    whole = (tmp_path / "j").read_bytes()
    (tmp_path / "j").write_bytes(whole[:-3])

    with pytest.raises(ConfigError, match="is of another recording, for its workload differ"):
        SurfaceJournal(tmp_path / "j", {**HEADER, "workload": "v"})

    assert whole[:-3] == (tmp_path / "j").read_bytes()


def test_a_surface_survives_its_file(tmp_path: Path) -> None:
    """Each config with its windows in their order, and the same bytes whenever it is written."""
    journal = begun(tmp_path / "j")

    write_surface(tmp_path / "s.gz", journal, [{}, {"cycle_ms": 3.0}])
    first = (tmp_path / "s.gz").read_bytes()
    write_surface(tmp_path / "s.gz", journal, [{}, {"cycle_ms": 3.0}])

    header, configs = read_surface(tmp_path / "s.gz")
    assert first == (tmp_path / "s.gz").read_bytes()
    assert {**HEADER, "calls": CALLS} == header
    assert [
        {"config": {}, "windows": [{"repeat": 0, "launch": 0, "at_s": 0.0, "step_ms": [1.5, 2.0]}]},
        {"config": {"cycle_ms": 3.0}, "windows": [{"repeat": 0, "launch": 0, "at_s": 1.25, "step_ms": [3.0, 4.0]}]},
    ] == configs


@pytest.mark.parametrize(
    "contents",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"no gzip", id="no gzip"),
        pytest.param(gzip.compress(b""), id="nothing inside"),
        pytest.param(gzip.compress(b"[]\n"), id="a list"),
        pytest.param(gzip.compress(b'{"schema":9}\n'), id="another schema"),
    ],
)
def test_what_is_no_surface_is_refused(tmp_path: Path, contents: bytes) -> None:
    """The refusal has the file's name."""
    (tmp_path / "s.gz").write_bytes(contents)

    with pytest.raises(ConfigError, match=r"s\.gz is no recorded surface"):
        read_surface(tmp_path / "s.gz")


def test_a_full_disk_keeps_what_was_measured(tmp_path: Path) -> None:
    """The error names the journal; once there is room the recording goes on behind the last whole window."""
    journal = begun(tmp_path / "j")

    with no_room_beyond((tmp_path / "j").stat().st_size + 20), pytest.raises(RingtuneError, match="j takes no more"):
        journal.add(SECOND)
    again = SurfaceJournal(tmp_path / "j", HEADER)
    again.add(FIRST)

    assert [FIRST, SECOND, FIRST] == SurfaceJournal(tmp_path / "j", HEADER).windows


def test_a_surface_for_which_there_is_no_room_is_not_there_in_part(tmp_path: Path) -> None:
    """A full disk leaves neither the file nor its beginnings; the journal is unchanged."""
    journal = begun(tmp_path / "j")
    before = (tmp_path / "j").read_bytes()

    with no_room_beyond(20), pytest.raises(RingtuneError, match="kept in the journal beside it"):
        write_surface(tmp_path / "s", journal, [{}, {}])

    assert [tmp_path / "j"] == list(tmp_path.iterdir())
    assert before == (tmp_path / "j").read_bytes()
