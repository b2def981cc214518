# SPDX-License-Identifier: Apache-2.0
"""Tests of writing the log: whole lines whatever happens, and Horovod's columns."""

import json
import os
from pathlib import Path

import pytest

from ringtune.tuner import default_config, open_log, read_log
from ringtune.tuner.logs.log import CSV_HEADER, AppendFile, NullLog
from ringtune.tuner.logs.records import ResultRecord
from ringtune.tuner.testing import SyntheticTarget, poor_baseline
from tests.unit.tuner.recording import tune


def result(run_id: str) -> ResultRecord:
    """Return a record to write."""
    return ResultRecord(1.0, run_id, default_config().to_json(), False, None, 0.5, None)


def test_a_record_is_one_line(tmp_path: Path) -> None:
    """Compact JSON, the type first, ended by a newline."""
    path = tmp_path / "tuning.jsonl"
    log = open_log(path)

    log.write(result("a"))
    log.write(result("b"))

    lines = path.read_text().split("\n")
    assert ["a", "b"] == [json.loads(line)["run_id"] for line in lines[:2]]
    assert [""] == lines[2:]
    assert lines[0].startswith('{"type":"result","t_s":1.0,')


@pytest.mark.parametrize("name", ["missing/tuning.jsonl", "", "missing/tuning.csv"])
def test_a_path_that_cannot_be_written_raises_at_once(tmp_path: Path, name: str) -> None:
    """A folder that is not there, or a folder as file: the caller can refuse before training."""
    with pytest.raises(OSError, match="tmp|test"):
        open_log(tmp_path / name)


def test_no_path_no_log() -> None:
    """Without a path records are dropped."""
    log = open_log(None)

    log.write(result("a"))
    log.close()

    assert isinstance(log, NullLog)


def test_after_a_partial_write_the_next_line_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk that was full for a while costs one line."""
    path, write = tmp_path / "tuning.jsonl", os.write
    log = open_log(path)

    monkeypatch.setattr(os, "write", lambda descriptor, data: write(descriptor, data[:7]))
    with pytest.raises(OSError, match="only 7 of"):
        log.write(result("a"))
    monkeypatch.setattr(os, "write", write)
    log.write(result("b"))

    contents = read_log(path)
    assert [1] == [bad.number for bad in contents.bad_lines]
    assert ["b"] == [run.run_id for run in contents.runs]


def test_each_record_is_one_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill tears at most the last line, and two writers do not mix."""
    writes: list[bytes] = []
    log = open_log(tmp_path / "tuning.jsonl")

    def count(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return len(data)

    monkeypatch.setattr(os, "write", count)
    log.write(result("a"))

    assert 1 == len(writes)
    assert writes[0].endswith(b"}\n")


def test_close_is_idempotent(tmp_path: Path) -> None:
    """Closing twice is harmless."""
    file = AppendFile(tmp_path / "x")

    file.close()
    file.close()


def test_a_csv_path_writes_horovods_columns(tmp_path: Path) -> None:
    """One row per valid sample of baseline and search and the final config; MiB, ms, bytes per microsecond."""
    path = tmp_path / "autotune.csv"
    log = open_log(path)

    outcome = tune(SyntheticTarget(baseline=poor_baseline(), seed=1), log=log)
    log.close()

    header, *rows = path.read_text().splitlines()
    fields = [row.split(",") for row in rows]
    assert CSV_HEADER == header
    assert 3 + 20 + 3 + 1 == len(rows)
    assert ["0", "0", "0", "1", "20", "0"] == fields[0][:6]
    assert 150 < float(fields[0][6]) < 300
    assert float(outcome.result.config["fusion_bytes"]) / 2**20 == pytest.approx(float(fields[-1][5]), rel=1e-4)
    assert fields[-1][6] == max((row[6] for row in fields if row[:6] == fields[-1][:6]), key=float)


def test_a_csv_file_has_one_header(tmp_path: Path) -> None:
    """A second run appends rows only."""
    path = tmp_path / "autotune.CSV"
    for _ in range(2):
        log = open_log(path)
        log.write(result("a"))
        log.close()

    assert [CSV_HEADER, "0,0,0,1,1,64,0", "0,0,0,1,1,64,0"] == path.read_text().splitlines()
