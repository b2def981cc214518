# SPDX-License-Identifier: Apache-2.0
"""Local study store: the finished runs of this machine, kept in one tuning log.

Several jobs may write at the same time. Each appends its whole run under a lock. The job that would make the file too
large replaces it with the newest runs.
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
"""Maximum size of the file, some hundred runs; a larger one is cut to its newest half."""


class KeepingLog:
    """Log in memory: the records of the newest run that belong into a `StudyStore`."""

    def __init__(self) -> None:
        """Begin without a run."""
        self._kept: list[Record] = []

    def write(self, record: Record) -> None:
        """Keep a record if later runs can use it; a new run replaces the previous one."""
        if isinstance(record, RunRecord):
            self._kept.clear()
        if _is_worth_keeping(record):
            self._kept.append(record)

    def close(self) -> None:
        """Do nothing; the records remain available."""

    def finished_run(self) -> Sequence[Record]:
        """Return the newest run's records; none if it is unfinished or has no sample."""
        kinds = {type(record) for record in self._kept}
        return tuple(self._kept) if {ResultRecord, SampleRecord} <= kinds else ()


class StudyStore:
    """Study store: the file of finished runs."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`; the first write creates the folder."""
        self.path = path

    def runs(self) -> tuple[RunLog, ...]:
        """Return the finished runs, the oldest first; none if there is no file. Other content is ignored.

        Raises:
            OSError: If the file exists and cannot be read.
        """
        return self.contents().runs

    def contents(self) -> LogContents:
        """Return the finished runs together with the bad lines.

        Raises:
            OSError: If the file exists and cannot be read.
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
            OSError: If they cannot be written; the earlier runs are unchanged.
        """
        data = _lines(records)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as descriptor:
            size = os.fstat(descriptor).st_size
            if size and os.pread(descriptor, 1, size - 1) != b"\n":
                data = b"\n" + data  # an earlier writer was killed within a line
            if size + len(data) > MAX_FILE_BYTES:
                self._replace(self._newest_half() + data)
            elif os.write(descriptor, data) != len(data):
                os.ftruncate(descriptor, size)
                raise OSError(f"the disk has no room for {len(data)} bytes")

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for appending under an exclusive lock; open it again if another job replaced it meanwhile."""
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
                    fcntl.flock(descriptor, fcntl.LOCK_UN)  # children forked meanwhile share the lock
                os.close(descriptor)

    def _newest_half(self) -> bytes:
        """Return the newest runs, up to half of the maximum size."""
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
                scratch.close()  # a full disk may only be reported here
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
    """Refuse a named pipe or a device: reading it may never end."""
    if not stat.S_ISREG(status.st_mode):
        raise OSError(errno.EINVAL, "no regular file")


def _is_same_file(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))  # noqa: PTH116  (beside fstat)
    except FileNotFoundError:
        return False
