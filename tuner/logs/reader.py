# SPDX-License-Identifier: Apache-2.0
"""Reader of the tuning log: truncated and foreign lines are reported by number, all others are read."""

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
"""Maximum length of a line; a longer one is reported and skipped, to bound memory. Records are below 10 kB."""
MOST_SAMPLES = 20
"""Maximum samples per config, the newest, that a later search starts with: more add time, not accuracy."""
MAX_BAD_LINES = 1000
"""Maximum number of bad lines that are listed; further ones are only counted."""


@dataclass(frozen=True)
class BadLine:
    """Line that is not a record: its number (from 1), and the reason."""

    number: int
    reason: str


@dataclass
class RunLog:
    """Records of one run; `run` is None if the run's first line is missing."""

    run_id: str
    run: RunRecord | None = None
    samples: list[SampleRecord] = field(default_factory=list)
    suggestions: list[SuggestionRecord] = field(default_factory=list)
    adoption: AdoptionRecord | None = None
    result: ResultRecord | None = None
    end: EndRecord | None = None

    def add(self, record: Record) -> None:
        """Add a record; of a kind that occurs once in a run, the last one is kept."""
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
    """Contents of a file: all runs in order, the first bad lines, and the total number of bad lines."""

    runs: tuple[RunLog, ...]
    bad_lines: tuple[BadLine, ...]
    bad_line_count: int


def read_log(path: str | os.PathLike[str]) -> LogContents:
    """Read a tuning log.

    Raises:
        OSError: If the file cannot be read; its contents never cause an error.
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
    """Return the search trials of the last run if it is unfinished and had the same key, space and seed.

    Directly preceding unfinished runs of the same problem are included, because the last run may have resumed them.

    Args:
        path: The log; None, a missing file, or a device, which never ends, gives no trials.
        key: The study's key, as in `RunSettings`.
        space: `SearchSpace.to_json()`.
        seed: The seed of the run.

    Returns:
        One trial per config with valid samples, numbered from 1 in the order of appearance.
    """
    samples: list[SampleRecord] = []
    question = (json.loads(json.dumps(dict(key))), json.loads(json.dumps(space)), seed)
    for log in reversed(runs_of_file(path)):
        if log.result is not None or log.run is None:
            break
        if (log.run.key, log.run.search_space, log.run.seed) != question:
            break
        samples = [s for s in log.samples if s.phase == Phase.SEARCH and s.valid] + samples
    return _trials(samples)


def runs_of_file(path: str | os.PathLike[str] | None) -> tuple[RunLog, ...]:
    """Return the runs of a log; none if the file cannot be read."""
    if path is None or not pathlib.Path(path).is_file():
        return ()
    try:
        return read_log(path).runs
    except OSError:
        return ()


def sample_from_record(record: SampleRecord, trial_id: int | None = None) -> Sample:
    """Return the sample of a record, with another trial number if given."""
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
    """Yield the lines without line ends; None for a line that is too long."""
    while line := stream.readline(MAX_LINE_BYTES):
        is_too_long = len(line) == MAX_LINE_BYTES and not line.endswith(b"\n")
        if not is_too_long:
            yield line.rstrip(b"\r\n")
            continue
        while line and not line.endswith(b"\n"):
            line = stream.readline(MAX_LINE_BYTES)
        yield None


def parse_line(line: bytes | None) -> Record | None:
    """Return the record of a line, or None if it is empty; raises RecordError."""
    if line is None:
        raise RecordError(f"longer than {MAX_LINE_BYTES} bytes")
    if not line:
        return None
    try:
        data = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RecordError("not JSON, perhaps torn by a kill") from error
    return record_from_json(data)
