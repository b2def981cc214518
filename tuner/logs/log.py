# SPDX-License-Identifier: Apache-2.0
"""Writing the tuning log: one record, one line, one write, so that the file is readable after `kill -9` at any byte."""

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Value
from ringtune.tuner.space.parameters import MIB

from .file import open_for_appending, refuse_other_content
from .records import Record, ResultRecord, SampleRecord, record_to_json

MODE = 0o644
"""Permissions of a new log, less the umask: it is made to be shown to others, and has no secrets."""
CSV_HEADER = (
    "hierarchical_allreduce,hierarchical_allgather,torus_allreduce,cache_enabled,"
    "cycle_time_ms,tensor_fusion_threshold,score"
)
"""Horovod 0.28's columns; the threshold is in MiB, the score in bytes per microsecond."""


class TuningLog(Protocol):
    """Takes a run's records; may raise, which costs one warning (see `reporting`)."""

    def write(self, record: Record) -> None:
        """Append a record."""

    def close(self) -> None:
        """Let go of the file; idempotent."""


class NullLog:
    """Keeps nothing."""

    def write(self, record: Record) -> None:
        """Drop the record."""

    def close(self) -> None:
        """Do nothing."""


class AppendFile:
    """An append-only text file that is whole lines, whatever happened to its earlier writers."""

    def __init__(self, path: Path, *, is_csv: bool = False) -> None:
        """Open or create the file and close its torn tail with a newline.

        Args:
            path: The file.
            is_csv: Whether it has Horovod's columns.

        Raises:
            OSError: If it cannot be opened or written, or has something else than a tuning log in it.
        """
        self._descriptor = open_for_appending(path, MODE)
        try:
            refuse_other_content(self._descriptor, is_csv=is_csv)
            status = os.fstat(self._descriptor)
            self.is_empty = not stat.S_ISREG(status.st_mode) or status.st_size == 0
            self._is_torn = not self.is_empty and os.pread(self._descriptor, 1, status.st_size - 1) != b"\n"
            if self._is_torn:
                self._write(b"\n")
        except BaseException:
            os.close(self._descriptor)
            raise
        self._is_torn = False

    def append(self, line: str) -> None:
        """Write one line with one call.

        Raises:
            OSError: If it was not, or only partly, written; the next line starts anew.
        """
        prefix = "\n" if self._is_torn else ""
        self._is_torn = True
        self._write(f"{prefix}{line}\n".encode())
        self._is_torn = False
        self.is_empty = False

    def close(self) -> None:
        """Close the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _write(self, data: bytes) -> None:
        written = os.write(self._descriptor, data)
        if written != len(data):
            raise OSError(f"only {written} of {len(data)} bytes could be written")


class JsonLinesLog:
    """The tuning log proper."""

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
    """Horovod 0.28's columns and units: a row per valid sample of baseline and search, then the final config.

    Lossy (no times, no reasons, no adoption test, the last row unmarked, as in Horovod) and not resumable.
    """

    def __init__(self, path: Path) -> None:
        """Open the file for appending; raises OSError."""
        self._file = AppendFile(path, is_csv=True)
        if self._file.is_empty:
            self._file.append(CSV_HEADER)
        self._scores: dict[str, float] = {}

    def write(self, record: Record) -> None:
        """Append a row where the record has one to give; raises OSError."""
        if isinstance(record, SampleRecord):
            if record.valid and record.score_bytes_per_s is not None and record.phase in (Phase.BASELINE, Phase.SEARCH):
                settings = _horovod_settings(record.config)
                self._scores[settings] = record.score_bytes_per_s / 1e6
                self._file.append(f"{settings},{self._scores[settings]:g}")
        elif isinstance(record, ResultRecord):
            settings = _horovod_settings(record.config)
            self._file.append(f"{settings},{self._scores.get(settings, 0.0):g}")

    def close(self) -> None:
        """Close the file; idempotent."""
        self._file.close()


def open_log(path: str | os.PathLike[str] | None) -> TuningLog:
    """Open the log that a path asks for: JSON Lines, Horovod's columns for `.csv`, or none.

    Raises:
        OSError: If the file cannot be opened or written.
    """
    if path is None:
        return NullLog()
    path = Path(path)
    return HorovodCsvLog(path) if path.suffix.lower() == ".csv" else JsonLinesLog(path)


def _horovod_settings(config: Mapping[str, Value]) -> str:
    """Return Horovod's six setting columns; there is no torus allreduce here."""
    switches = (config.get("hierarchical_allreduce", False), config.get("hierarchical_allgather", False), False)
    flags = [str(int(bool(flag))) for flag in (*switches, config.get("response_cache", False))]
    threshold_mib = float(config.get("fusion_bytes", 0)) / MIB
    return ",".join([*flags, f"{float(config.get('cycle_ms', 0)):g}", f"{threshold_mib:g}"])
