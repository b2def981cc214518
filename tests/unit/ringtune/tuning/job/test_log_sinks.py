# SPDX-License-Identifier: Apache-2.0
"""A tuning log that is a list of sinks."""

from pathlib import Path

import pytest

from ringtune.tuner import KeepingLog, RunSettings, open_log
from ringtune.tuner.logs.records import Record, SampleRecord
from ringtune.tuner.testing import SyntheticTarget
from ringtune.tuning.job.log_sinks import LogSinks
from tests.unit.tuner.recording import RecordingLog, tune


class FullLog(RecordingLog):
    """A log on a disk without room."""

    def write(self, record: Record) -> None:
        """Fail."""
        raise OSError("no space left")

    def close(self) -> None:
        """Fail."""
        raise OSError("no space left")


def test_every_sink_gets_every_record(tmp_path: Path) -> None:
    """The file has the warmup, which the kept run leaves out."""
    path = tmp_path / "log.jsonl"
    kept, recorded = KeepingLog(), RecordingLog()
    log = LogSinks([kept, recorded, open_log(path)])
    tune(SyntheticTarget(seed=1), settings=RunSettings(max_samples=2), log=log)
    log.close()

    assert len(recorded.records) == len(path.read_text().splitlines())
    assert path.read_text().count('"phase":"warmup"') > 0
    assert [r for r in kept.finished_run() if isinstance(r, SampleRecord) and r.phase == "warmup"] == []


def test_a_sink_that_fails_keeps_nothing_from_the_others() -> None:
    """Those after it are served first; then its error reaches the tuner, which warns of it."""
    recorded = RecordingLog()
    tune(SyntheticTarget(seed=1), settings=RunSettings(max_samples=2), log=recorded)
    after = RecordingLog()
    log = LogSinks([FullLog(), after])

    with pytest.raises(OSError, match="no space left"):
        log.write(recorded.records[0])
    with pytest.raises(OSError, match="no space left"):
        log.close()

    assert recorded.records[:1] == after.records
