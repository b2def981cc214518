# SPDX-License-Identifier: Apache-2.0
"""What this machine learned: finished runs, kept in one file that is a tuning log like any other.

Several jobs may write at the same time: each appends its whole run under a lock, and who makes the file too large
replaces it by its newest runs.
"""

import errno
import fcntl
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from ringtune.tuner.sample import Phase

from .file import open_for_appending, refuse_other_content
from .reader import LogContents, RunLog, read_log
from .records import AdoptionRecord, Record, ResultRecord, RunRecord, SampleRecord, record_to_json

MAX_FILE_BYTES = 8 << 20
"""Some hundred runs; a file beyond this is cut to its newest half."""


class KeepingLog:
    """Log sink in memory: the records of the newest run that are worth keeping in a `StudyStore`."""

    def __init__(self) -> None:
        """Begin without a run."""
        self._kept: list[Record] = []

    def write(self, record: Record) -> None:
        """Keep a record, unless later runs have no use for it; a new run replaces the one before."""
        if isinstance(record, RunRecord):
            self._kept.clear()
        if _is_worth_keeping(record):
            self._kept.append(record)

    def close(self) -> None:
        """Do nothing: the records stay."""

    def finished_run(self) -> Sequence[Record]:
        """Return the newest run's records, none if it was not finished, or measured nothing."""
        kinds = {type(record) for record in self._kept}
        return tuple(self._kept) if {ResultRecord, SampleRecord} <= kinds else ()


class StudyStore:
    """The file of finished runs."""

    def __init__(self, path: Path) -> None:
        """Keep runs there; the folder is made when the first is written."""
        self.path = path

    def runs(self) -> tuple[RunLog, ...]:
        """Return the finished runs, the oldest first; none where there is no file. What is no run is left out.

        Raises:
            OSError: If the file is there and cannot be read.
        """
        return self.contents().runs

    def contents(self) -> LogContents:
        """Return the same, with the lines that are no records.

        Raises:
            OSError: If the file is there and cannot be read.
        """
        try:
            contents = read_log(self.path)
        except FileNotFoundError:
            return LogContents((), (), 0)
        runs = tuple(run for run in contents.runs if run.run is not None and run.result is not None)
        return replace(contents, runs=runs)

    def keep(self, records: Sequence[Record]) -> None:
        """Append a run's records.

        Raises:
            OSError: If they cannot be written; the runs that were there are as they were.
        """
        data = _lines(records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as descriptor:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # an earlier writer was killed in the middle of a line
            if size + len(data) > MAX_FILE_BYTES:
                self._replace(self._newest_half() + data)
            elif os.write(descriptor, data) != len(data):
                os.ftruncate(descriptor, size)
                raise OSError(f"the disk has no room for {len(data)} bytes")

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for appending, alone; not one that was replaced meanwhile."""
        while True:
            descriptor = open_for_appending(self.path, 0o600)
            try:
                _check_regular(os.fstat(descriptor))
                refuse_other_content(descriptor)
                fcntl.flock(descriptor, fcntl.LOCK_EX)
                if _is_same_file(descriptor, self.path):
                    yield descriptor
                    return
            finally:
                with suppress(OSError):
                    fcntl.flock(descriptor, fcntl.LOCK_UN)  # children that were forked meanwhile share the lock
                os.close(descriptor)

    def _newest_half(self) -> bytes:
        """Return the newest runs, of half of the size that is allowed at most."""
        kept: list[bytes] = []
        size = 0
        for run in reversed(self.runs()):
            records = (run.run, *run.samples, run.adoption, run.result)
            data = _lines([record for record in records if record is not None])
            size += len(data)
            if size > MAX_FILE_BYTES // 2:
                break
            kept.append(data)
        return b"".join(reversed(kept))

    def _replace(self, data: bytes) -> None:
        with tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=self.path.stem, delete=False) as scratch:
            try:
                scratch.write(data)
                scratch.close()  # a full disk may say so only now
                Path(scratch.name).replace(self.path)
            except OSError:
                Path(scratch.name).unlink(missing_ok=True)
                raise


def _is_worth_keeping(record: Record) -> bool:
    if isinstance(record, SampleRecord):
        return record.valid and record.phase not in (Phase.WARMUP, Phase.WATCH)
    return isinstance(record, RunRecord | AdoptionRecord | ResultRecord)


def _lines(records: Sequence[Record]) -> bytes:
    texts = (json.dumps(record_to_json(record), allow_nan=False, separators=(",", ":")) for record in records)
    return "".join(f"{text}\n" for text in texts).encode()


def _check_regular(status: os.stat_result) -> None:
    """Raise where the file is a named pipe or a device: reading it may never end."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116  (beside fstat)
    except FileNotFoundError:
        return False
