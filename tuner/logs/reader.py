# SPDX-License-Identifier: Apache-2.0
"""Reading the tuning log: torn and foreign lines are reported by number, the rest is read."""

import json
import os
import pathlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

from ringtune.tuner.sample import Phase, Sample, StepTimes, Trial, VoidReason
from ringtune.tuner.space.config import Config

from .file import reading
from .records import (
    AdoptionRecord,
    EndRecord,
    Json,
    Record,
    RecordError,
    ResultRecord,
    RunRecord,
    SampleRecord,
    SuggestionRecord,
    record_from_json,
)

MAX_LINE_BYTES = 1 << 20
"""Longer lines are reported and skipped, so that a foreign file cannot take all memory; ours are below 10 kB."""
MOST_SAMPLES = 20
"""Of one config, that a later search begins with, the newest: more would take a designer's time and tell it nothing."""
MAX_BAD_LINES = 1000
"""Bad lines kept by number; beyond this they are only counted."""


@dataclass(frozen=True)
class BadLine:
    """A line that is no record, by its number (from 1), and why."""

    number: int
    reason: str


@dataclass
class RunLog:
    """The records of one run; `run` is None where its first line was lost."""

    run_id: str
    run: RunRecord | None = None
    samples: list[SampleRecord] = field(default_factory=list)
    suggestions: list[SuggestionRecord] = field(default_factory=list)
    adoption: AdoptionRecord | None = None
    result: ResultRecord | None = None
    end: EndRecord | None = None

    def add(self, record: Record) -> None:
        """Put a record in its place; of the single ones the last holds."""
        if isinstance(record, SampleRecord):
            self.samples.append(record)
        elif isinstance(record, SuggestionRecord):
            self.suggestions.append(record)
        elif isinstance(record, RunRecord):
            self.run = record
        elif isinstance(record, AdoptionRecord):
            self.adoption = record
        elif isinstance(record, EndRecord):
            self.end = record
        else:
            self.result = record


@dataclass(frozen=True)
class LogContents:
    """All runs of a file, in order, its first bad lines, and how many bad lines there are in all."""

    runs: tuple[RunLog, ...]
    bad_lines: tuple[BadLine, ...]
    bad_line_count: int


def read_log(path: str | os.PathLike[str]) -> LogContents:
    """Read a tuning log.

    Raises:
        OSError: If the file cannot be read; its contents never raise.
    """
    runs: dict[str, RunLog] = {}
    bad_lines: list[BadLine] = []
    bad_line_count = 0
    with reading(path) as stream:
        for number, line in enumerate(bounded_lines(stream), start=1):
            try:
                record = parse_line(line)
            except RecordError as error:
                bad_line_count += 1
                if len(bad_lines) < MAX_BAD_LINES:
                    bad_lines.append(BadLine(number, str(error)))
                continue
            if record is not None:
                runs.setdefault(record.run_id, RunLog(record.run_id)).add(record)
    return LogContents(tuple(runs.values()), tuple(bad_lines), bad_line_count)


def find_unfinished(
    path: str | os.PathLike[str] | None, key: Mapping[str, object], space: Json, seed: int
) -> tuple[Trial, ...]:
    """Return the search trials of the last run, when it did not finish and asked the same question.

    Unfinished runs of the same question directly before it are included, for it may have resumed them itself.

    Args:
        path: The log; None, a file that does not exist, and a device, which has no end, have no run.
        key: The study's key, as in `RunSettings`.
        space: `SearchSpace.to_json()`.
        seed: The seed of the run.

    Returns:
        One trial per config with valid samples, numbered from 1 in order of appearance.
    """
    samples: list[SampleRecord] = []
    question = (json.loads(json.dumps(dict(key))), json.loads(json.dumps(space)), seed)
    for log in reversed(_runs_of_file(path)):
        if log.result is not None or log.run is None:
            break
        if (log.run.key, log.run.search_space, log.run.seed) != question:
            break
        samples = [s for s in log.samples if s.phase == Phase.SEARCH and s.valid] + samples
    return _trials(samples)


def _runs_of_file(path: str | os.PathLike[str] | None) -> tuple[RunLog, ...]:
    """Return the runs of a log, none where there is no file that can be read."""
    if path is None or not pathlib.Path(path).is_file():
        return ()
    try:
        return read_log(path).runs
    except OSError:
        return ()


def sample_from_record(record: SampleRecord, trial_id: int | None = None) -> Sample:
    """Return the sample behind a record, under another trial's number if given."""
    times = {name: float("nan") if value is None else float(value) for name, value in record.step_ms.items()}
    return Sample(
        trial_id=record.trial_id if trial_id is None else trial_id,
        config=Config(record.config),
        phase=Phase(record.phase),
        epoch=record.epoch,
        score_bytes_per_s=float("nan") if record.score_bytes_per_s is None else record.score_bytes_per_s,
        step_times=StepTimes(times["median"], times["mad"], times["mean"]),
        steps=record.steps,
        reason=None if record.reason is None else VoidReason(record.reason),
    )


def _trials(records: list[SampleRecord]) -> tuple[Trial, ...]:
    by_config: dict[Config, list[SampleRecord]] = {}
    for record in records:
        by_config.setdefault(Config(record.config), []).append(record)
    trials = []
    for trial_id, (config, group) in enumerate(by_config.items(), start=1):
        samples = (sample_from_record(record, trial_id) for record in group[-MOST_SAMPLES:])
        usable = tuple(sample for sample in samples if sample.step_times.is_usable)
        trials.append(Trial(trial_id, config, usable))
    return tuple(trial for trial in trials if trial.samples)


def bounded_lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield the lines without their ends; None for one that is too long."""
    while line := stream.readline(MAX_LINE_BYTES):
        is_too_long = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
        if not is_too_long:
            yield line.rstrip(b"\r\n")
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)
        yield None


def parse_line(line: bytes | None) -> Record | None:
    """Return the line's record, None for an empty line; raises RecordError."""
    if line is None:
        raise RecordError(f"longer than {MAX_LINE_BYTES} bytes")
    if not line:
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError("not JSON, perhaps torn by a kill") from error
    return record_from_json(data)
