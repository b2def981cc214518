# SPDX-License-Identifier: Apache-2.0
"""Local study store: the runs of this machine, kept in one tuning log.

Several jobs may write at the same time. Each appends a finished run whole, or an unfinished one part by part, under a
lock. The job that would make the file too large replaces it with the newest runs.

Runs of an earlier version of the engine lack the knobs that came later: they are read with these at their defaults.
"""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from ringtune.system.durable_lines import append_lines, open_for_appending
from ringtune.system.file_lock import lock_file, unlock_file
from ringtune.system.whole_file import PRIVATE_MODE, replace_whole
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.parameters import FIRST_KNOBS, with_later_knobs

from .file import refuse_other_content
from .reader import LogContents, RunLog, read_log
from .records import AdoptionRecord, Record, ResultRecord, RunRecord, SampleRecord, record_to_json

MAX_FILE_BYTES = 8 << 20
"""Maximum size of the file, some hundred runs; a larger one is cut to its newest half."""
UNFINISHED_SHARE = 4
"""Divisor of that half that gives the room for unfinished runs: many short jobs must not push the decisions out."""


@dataclass(frozen=True)
class WrittenPart:
    """Part of a run that the file has.

    Attributes:
        records: Number of the run's records in it.
        file: Device and inode of the file, which is another one once it was cut or removed.
    """

    records: int
    file: tuple[int, int]


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

    def unfinished_run(self) -> Sequence[Record]:
        """Return the newest run's records; none if it is finished, or measured its baseline alone."""
        run = next((record for record in self._kept if isinstance(record, RunRecord)), None)
        if run is None or any(isinstance(record, ResultRecord) for record in self._kept):
            return ()
        others = (record for record in self._kept if isinstance(record, SampleRecord))
        return tuple(self._kept) if any(record.config != run.baseline for record in others) else ()


class StudyStore:
    """Study store: the file of finished runs, and of the samples of unfinished ones."""

    def __init__(self, path: Path) -> None:
        """Use the file at `path`; the first write creates the folder."""
        self.path = path

    def runs(self) -> tuple[RunLog, ...]:
        """Return the finished runs, the oldest first; none if there is no file. Other content is ignored.

        Raises:
            OSError: If the file exists and cannot be read.
        """
        return tuple(run for run in self.contents().runs if run.result is not None)

    def contents(self) -> LogContents:
        """Return the finished runs, the unfinished ones that have samples, and the bad lines.

        Raises:
            OSError: If the file exists and cannot be read.
        """
        try:
            contents = read_log(self.path)
        except FileNotFoundError:
            return LogContents((), (), 0)
        runs = (_with_later_knobs(_once(run)) for run in contents.runs if run.run is not None)
        return replace(contents, runs=tuple(run for run in runs if run.result is not None or run.samples))

    def keep(self, records: Sequence[Record], written: WrittenPart | None = None) -> WrittenPart:
        """Append a run's records.

        Args:
            records: All records of the run so far.
            written: Result of the call before for this run; None writes the whole run.

        Returns:
            The part that the file has now.

        Raises:
            OSError: If they cannot be written; the earlier runs are unchanged.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._locked() as descriptor:
            status = os.fstat(descriptor)
            file, size = (status.st_dev, status.st_ino), status.st_size
            first = written.records if written is not None and written.file == file else 0
            data = _lines(records[first:])
            if size + len(data) > MAX_FILE_BYTES:
                newest = self._newest_half(records[0].run_id) + _lines(records)
                status = replace_whole(self.path, newest, PRIVATE_MODE)
                file = (status.st_dev, status.st_ino)
            else:
                append_lines(descriptor, data, is_alone=True)
            return WrittenPart(len(records), file)

    @contextmanager
    def _locked(self) -> Iterator[int]:
        """Open the file for appending under an exclusive lock; open it again if another job replaced it meanwhile."""
        descriptor = lock_file(self.path, partial(open_for_appending, mode=PRIVATE_MODE), is_waiting=True)
        assert descriptor is not None
        try:
            refuse_other_content(descriptor)
            yield descriptor
        finally:
            unlock_file(descriptor)

    def _newest_half(self, but: str) -> bytes:
        """Return the newest runs but one, up to half of the maximum size; unfinished ones have a part of it."""
        kept: list[bytes] = []
        room = {True: MAX_FILE_BYTES // 2, False: MAX_FILE_BYTES // 2 // UNFINISHED_SHARE}
        for run in reversed(self.contents().runs):
            records = (run.run, *run.samples, run.adoption, run.result)
            data = _lines([record for record in records if record is not None and run.run_id != but])
            is_finished = run.result is not None
            if len(data) > min(room[is_finished], room[True]):
                room[is_finished] = 0  # no older one of its kind either
                continue
            room[True] -= len(data)
            room[False] -= 0 if is_finished else len(data)
            kept.append(data)
        return b"".join(reversed(kept))


def _once(run: RunLog) -> RunLog:
    """Return a run without repeated windows: it was written again from its beginning when the file was replaced."""
    return replace(run, samples=list({sample.window: sample for sample in run.samples}.values()))


def _with_later_knobs(run: RunLog) -> RunLog:
    """Return a run whose configs have every knob, if it is one of the engine, of whatever version."""
    if run.run is None or not run.run.baseline.keys() >= FIRST_KNOBS:
        return run
    return replace(
        run,
        run=replace(run.run, baseline=_completed(run.run.baseline)),
        samples=[replace(sample, config=_completed(sample.config)) for sample in run.samples],
        result=None if run.result is None else replace(run.result, config=_completed(run.result.config)),
    )


def _completed(config: Mapping[str, Any]) -> dict[str, Any]:
    return with_later_knobs(config) if config.keys() >= FIRST_KNOBS else dict(config)


def _is_worth_keeping(record: Record) -> bool:
    if isinstance(record, SampleRecord):
        return record.valid and record.phase not in (Phase.WARMUP, Phase.WATCH)
    return isinstance(record, RunRecord | AdoptionRecord | ResultRecord)


def _lines(records: Sequence[Record]) -> bytes:
    texts = (json.dumps(record_to_json(record), allow_nan=False, separators=(",", ":")) for record in records)
    return "".join(f"{text}\n" for text in texts).encode()
