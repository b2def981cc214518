# SPDX-License-Identifier: Apache-2.0
"""A job as the wiring sees it: a tuning run on a synthetic target that has a link to a service."""

from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ringtune.tuner import (
    DEFAULT_DESIGNER,
    Result,
    RunSettings,
    SearchSpace,
    SilentObserver,
    TuningRun,
    make_designer,
    open_log,
)
from ringtune.tuner.logs.records import Record, RunRecord
from ringtune.tuner.testing import GRADIENT_BYTES, Disturbances, SyntheticTarget, poor_baseline
from ringtune.tuning.job.log_sinks import LogSinks
from ringtune.tuning.service_link import NoService, ServiceJob, ServiceLink, service_link

KEY: dict[str, Any] = {
    "hardware": "aa" * 32,
    "model": "bb" * 32,
    "layout": [2],
    "target": "ringtune",
    "surface_version": 1,
}
SPACE: SearchSpace = SyntheticTarget(seed=0).space()
GRADIENTS = (GRADIENT_BYTES // 2, GRADIENT_BYTES // 2)


@dataclass
class Notes:
    """A console that remembers."""

    warnings: list[str] = field(default_factory=list)
    infos: list[str] = field(default_factory=list)

    def info(self, text: str) -> None:
        """Remember."""
        self.infos.append(text)

    def warning(self, text: str) -> None:
        """Remember."""
        self.warnings.append(text)


@dataclass
class Outcome:
    """A job that is over.

    Attributes:
        records: Its tuning log.
        notes: The notices of the link.
        result: The result of tuning.
    """

    records: list[Record]
    notes: Notes
    result: Result


class _Kept:
    """A log that remembers its records."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self._log = open_log(None)

    def write(self, record: Record) -> None:
        """Remember a record."""
        self.records.append(record)

    def close(self) -> None:
        """Ignore it: the records stay in memory."""


def run_settings(**changes: Any) -> RunSettings:
    """Return the settings of a short run."""
    return RunSettings(**{"max_samples": 3, "key": KEY, "layout": {"ranks_per_host": [2]}, "seed": 1, **changes})


def idle_job() -> ServiceJob:
    """Return a job that does not tune."""
    return ServiceJob(run_settings(), SPACE)


def connect(url: str, folder: Path, notes: Notes) -> ServiceLink:
    """Return a job's link."""
    return service_link(url, None, folder, notes)


def run_job(
    link: ServiceLink, notes: Notes, settings: RunSettings | None = None, windows: int | None = None
) -> Outcome:
    """Run a job to its end, or for so many windows.

    Args:
        link: Its link to the service.
        notes: The list that takes the link's notices.
        settings: Identity and budget.
        windows: Number of windows after which the job is over; None for never.
    """
    settings = run_settings() if settings is None else settings
    target = SyntheticTarget(
        baseline=poor_baseline(), disturbances=Disturbances(closes_after_windows=windows), seed=settings.seed
    )
    kept = _Kept()
    designer = make_designer(DEFAULT_DESIGNER, target.space(), settings.seed)
    job = ServiceJob(settings, target.space(), GRADIENTS)
    designer = link.with_start(designer, job)
    log = LogSinks([link.report_log(), kept])
    result = TuningRun(target, designer, settings, log, SilentObserver(), clock=target.clock).run()
    link.close()
    return Outcome(kept.records, notes, result)


@cache
def undisturbed() -> Outcome:
    """Return a job without a service."""
    return run_job(NoService(), Notes(), run_settings(run_id="1" * 32))


def tuned_records() -> tuple[Record, ...]:
    """Return that job's log."""
    return tuple(undisturbed().records)


def run_record() -> RunRecord:
    """Return its first record."""
    first = tuned_records()[0]
    assert isinstance(first, RunRecord)
    return first
