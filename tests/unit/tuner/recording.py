# SPDX-License-Identifier: Apache-2.0
"""Support for the tuner's tests: a run in one call, and an observer and a log that remember."""

from dataclasses import dataclass, field

from ringtune.tuner import Phase, Progress, Result, RunSettings, TuningLog, TuningRun, make_designer
from ringtune.tuner.designers import Designer
from ringtune.tuner.logs.records import Record, SampleRecord
from ringtune.tuner.testing import SyntheticTarget


@dataclass
class RecordingObserver:
    """Remembers everything it is told."""

    seen: list[Progress] = field(default_factory=list)
    results: list[Result] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def progress(self, progress: Progress) -> None:
        """Remember the progress."""
        self.seen.append(progress)

    def finished(self, result: Result) -> None:
        """Remember the result."""
        self.results.append(result)

    def warned(self, text: str) -> None:
        """Remember the warning."""
        self.warnings.append(text)


@dataclass
class RecordingLog:
    """Remembers every record."""

    records: list[Record] = field(default_factory=list)

    def write(self, record: Record) -> None:
        """Remember the record."""
        self.records.append(record)

    def close(self) -> None:
        """Keep the records."""


@dataclass
class Outcome:
    """A finished run, and the calls that its observer and its log received."""

    result: Result
    target: SyntheticTarget
    observer: RecordingObserver
    records: list[Record]


def samples(outcome: Outcome, phase: Phase) -> list[SampleRecord]:
    """Return the records of a phase's windows."""
    return [record for record in outcome.records if isinstance(record, SampleRecord) and record.phase == phase]


def tune(
    target: SyntheticTarget,
    designer: Designer | None = None,
    settings: RunSettings | None = None,
    log: TuningLog | None = None,
) -> Outcome:
    """Run the whole policy on a synthetic target, by default with the random designer."""
    settings = RunSettings(run_id="test") if settings is None else settings
    designer = make_designer("random", target.space(), settings.seed) if designer is None else designer
    observer, kept = RecordingObserver(), RecordingLog()
    run = TuningRun(target, designer, settings, kept if log is None else log, observer, clock=target.clock)
    return Outcome(run.run(), target, observer, kept.records)


@dataclass
class ClosedObserver(RecordingObserver):
    """An observer that counts its closings."""

    closed: int = 0
    waits: list[str] = field(default_factory=list)

    def waiting(self, text: str) -> None:
        """Remember the wait."""
        self.waits.append(text)

    def close(self) -> None:
        """Count."""
        self.closed += 1
