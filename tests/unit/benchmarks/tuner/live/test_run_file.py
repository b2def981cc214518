# SPDX-License-Identifier: Apache-2.0
"""Kept results of live runs: which are kept, and which still hold."""

from pathlib import Path

import pytest

from benchmarks.tuner.live import run_file
from benchmarks.tuner.live.run_file import RunFile

ROW = {"scheme": "ringtune", "seed": 0, "steps": 400}


def test_a_run_is_kept_until_the_sources_change(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run of changed sources is reported as outdated, and stays in the file."""
    path = tmp_path / "folder" / "kept"
    RunFile(path).add(ROW)

    (same,) = RunFile(path).rows
    monkeypatch.setattr(run_file, "sources_digest", lambda folders, left_out: "other")
    later = RunFile(path)
    later.add({**ROW, "seed": 1})

    assert ROW == {name: same[name] for name in ROW}
    assert 1 == later.outdated
    assert [1] == [row["seed"] for row in RunFile(path).rows]
    assert 2 == len(path.read_text().splitlines())


def test_a_torn_line_is_no_run(tmp_path: Path) -> None:
    """The run is done again, and its line is not joined to the torn one."""
    path = tmp_path / "kept"
    RunFile(path).add(ROW)
    RunFile(path).add({**ROW, "seed": 1})
    path.write_text(path.read_text()[:-30])

    torn = RunFile(path)
    found = [row["seed"] for row in torn.rows]
    torn.add({**ROW, "seed": 1})

    assert [0] == found
    assert [0, 1] == [row["seed"] for row in RunFile(path).rows]


def test_rows_without_a_version_are_of_another(tmp_path: Path) -> None:
    """Rows from before versions were kept count as another version."""
    (tmp_path / "kept").write_text('{"scheme": "ringtune", "seed": 0}\n')

    assert [] == RunFile(tmp_path / "kept").rows
    assert 1 == RunFile(tmp_path / "kept").outdated
