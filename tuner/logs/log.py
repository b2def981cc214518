# SPDX-License-Identifier: Apache-2.0
"""Writers of the tuning log: one write of one line per record, so that the log stays readable after any `kill -9`."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ringtune.system.durable_lines import append_lines, open_for_appending
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameters import MIB

from .file import refuse_other_content
from .records import Record, ResultRecord, SampleRecord, record_to_json

MODE = 0o644
"""Permissions of a new log, less the umask: a log is meant to be shared, and has no secrets."""
CSV_HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
    "cycle_time_ms,tensor_fusion_threshold,score"
)
"""Columns of Horovod 0.28; the threshold is in MiB, the score in bytes per microsecond."""


class TuningLog(Protocol):
    """Sink of a run's records. It may raise: tuning then goes on with one warning (see `reporting`)."""

    def write(self, record: Record) -> None:
        """Append a record."""

    def close(self) -> None:
        """Release the file; idempotent."""


class NullLog:
    """Log that discards all records."""

    def write(self, record: Record) -> None:
        """Drop the record."""

    def close(self) -> None:
        """Do nothing."""


class AppendFile:
    """Append-only text file of complete lines, even if an earlier writer was killed within a line."""

    def __init__(self, path: Path, *, is_csv: bool = False) -> None:
        """Open or create the file; end a truncated last line with a newline.

        Args:
            path: The file.
            is_csv: Whether it has Horovod's columns.

        Raises:
            OSError: If the file cannot be opened or written, or has other content than a tuning log.
        """
        self._descriptor = open_for_appending(path, MODE)
        try:
            refuse_other_content(self._descriptor, is_csv=is_csv)
            status = os.fstat(self._descriptor)
            self.is_empty = not stat.S_ISREG(status.st_mode) or status.st_size == 0
            append_lines(self._descriptor, b"")
        except BaseException:
            os.close(self._descriptor)
            raise

    def append(self, line: str) -> None:
        """Write a line with a single system call.

        Raises:
            OSError: If the line was not written, or only a part; the next call starts a new line.
        """
        append_lines(self._descriptor, f"{line}\n".encode())
        self.is_empty = False

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class JsonLinesLog:
    """Tuning log in JSON Lines, the native format."""

    def __init__(self, path: Path) -> None:
        """Open the file for appending; raises OSError."""
        self._file = AppendFile(path)

    def write(self, record: Record) -> None:
        """Append the record as one line of JSON; raises OSError."""
        self._file.append(json.dumps(record_to_json(record), allow_nan=False, separators=(",", ":")))

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


class HorovodCsvLog:
    """Tuning log in Horovod 0.28's columns and units: a row per valid sample of the search, then the final config.

    The baseline's samples are included. The format is lossy: no times, no reasons, no adoption test, and an unmarked
    last row, as in Horovod. A run cannot be resumed from it.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending; raises OSError."""
        self._file = AppendFile(path, is_csv=True)
        if self._file.is_empty:
            self._file.append(CSV_HEADER)
        self._best: dict[str, float] = {}  # highest score of each config: readers look for it in the closing row

    def write(self, record: Record) -> None:
        """Append a row if the record has one; raises OSError."""
        if isinstance(record, SampleRecord):
            if record.valid and record.score_bytes_per_s is not None and record.phase in (Phase.BASELINE, Phase.SEARCH):
                settings = _horovod_settings(record.config)
                score = record.score_bytes_per_s / 1e6
                self._best[settings] = max(score, self._best.get(settings, 0.0))
                self._file.append(f"{settings},{score:g}")
        elif isinstance(record, ResultRecord):
            settings = _horovod_settings(record.config)
            self._file.append(f"{settings},{self._best.get(settings, 0.0):g}")

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def open_log(path: str | os.PathLike[str] | None) -> TuningLog:
    """Open the log for a path: JSON Lines, Horovod's columns for `.csv`, or no log for None.

    Raises:
        OSError: If the file cannot be opened or written.
    """
    if path is None:
        return NullLog()
    path = Path(path)
    return HorovodCsvLog(path) if path.suffix.lower() == ".csv" else JsonLinesLog(path)


def _horovod_settings(config: Mapping[str, Value]) -> str:
    """Return Horovod's six setting columns; the torus allreduce, which does not exist here, is always 0."""
    switches = (config.get("hierarchical_allreduce", False), config.get("hierarchical_allgather", False), False)
    flags = [str(int(bool(flag))) for flag in (*switches, config.get("response_cache", False))]
    threshold_mib = float(config.get("fusion_bytes", 0)) / MIB
    return ",".join([*flags, f"{float(config.get('cycle_ms', 0)):g}", f"{threshold_mib:g}"])
