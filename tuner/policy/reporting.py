# SPDX-License-Identifier: Apache-2.0
"""Reports of a tuning run to people: progress, warnings, result, and the wrapper that contains failing listeners."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from ringtune.tuner.logs.log import TuningLog
from ringtune.tuner.logs.records import Record
from ringtune.tuner.sample import Phase
from ringtune.tuner.space.config import Config
from ringtune.tuner.statistics.paired_test import CI_LEVEL

SENTENCE_ENDS = re.compile(r"(?<=\.)\s+(?=[A-Z])")
"""Ends of sentences within a verdict."""


@dataclass(frozen=True)
class Progress:
    """Progress of a run.

    Attributes:
        phase: The current phase.
        sample: Samples of this phase so far, pairs in the adoption phase.
        samples_total: Number of samples of the phase; None if unknown (warmup).
        score_bytes_per_s: The newest score, or None.
        steps_per_s: Steps per second in the newest valid window, or None.
        seconds_left: Estimated time left for the whole run, seconds; None while there is no estimate.
        config: Config of the newest sample.
    """

    phase: Phase
    sample: int
    samples_total: int | None
    score_bytes_per_s: float | None
    steps_per_s: float | None
    seconds_left: float | None
    config: Config


@dataclass(frozen=True)
class Result:
    """Result of a run.

    Attributes:
        config: The config in force from now on.
        baseline: Config that the job would have run without tuning.
        adopted: Whether `config` was shown to beat the baseline.
        verdict: The decision and its reason in one line for people.
        speedup: Fraction by which the challenger was faster in the adoption test; None without a test. It is a gain
            only if `adopted`.
        ci_low: Lower end of its two-sided interval, or None; above zero if `adopted`.
        ci_high: Upper end of the interval, or None.
        cost_s: Seconds lost against the baseline while tuning; below zero if the tried configs were faster overall.
        payback_steps: Steps after which the gain has repaid the cost; None if nothing was adopted.
        steps: Steps the run measured or skipped to settle.
        seconds: Duration of the run.
        is_complete: False if the job ended before the run did.
        ci_level: Level of the interval, a fraction.
        ended: Sentence on why the search ended; empty for a check of an adopted config.
    """

    config: Config
    baseline: Config
    adopted: bool
    verdict: str
    speedup: float | None
    ci_low: float | None
    ci_high: float | None
    cost_s: float
    payback_steps: int | None
    steps: int
    seconds: float
    is_complete: bool
    ci_level: float = CI_LEVEL
    ended: str = ""


def verdict_parts(verdict: str) -> tuple[str, tuple[str, ...]]:
    """Return the first sentence of a verdict, which is the answer, and the sentences that explain it."""
    first, *rest = SENTENCE_ENDS.split(verdict.strip())
    return first.removesuffix("."), tuple(rest)


class Observer(Protocol):
    """Display of a run. Calls come from the tuning thread; any exception that they raise is caught."""

    def progress(self, progress: Progress) -> None:
        """Show the progress of the run."""

    def finished(self, result: Result) -> None:
        """Show the result. This is the last call, unless a change calls the decision into question and a run begins."""

    def warned(self, text: str) -> None:
        """Show a warning."""


class SilentObserver:
    """Observer that shows nothing."""

    def progress(self, progress: Progress) -> None:
        """Ignore the progress."""

    def finished(self, result: Result) -> None:
        """Ignore the result."""

    def warned(self, text: str) -> None:
        """Ignore the warning."""


class Reporter:
    """Forwards records and reports to log and observer; a failure of either causes one warning and nothing else."""

    def __init__(self, log: TuningLog, observer: Observer) -> None:
        """Wrap a log and an observer."""
        self._log = log
        self._observer = observer
        self._has_log_failed = False
        self._has_observer_failed = False

    def write(self, record: Record) -> None:
        """Append a record to the log."""
        try:
            self._log.write(record)
        except Exception as error:  # noqa: BLE001 - a full disk or a broken log must not stop tuning
            if not self._has_log_failed:
                self._has_log_failed = True
                self.warned(f"the tuning log misses records: {error}; tuning goes on, check the disk")

    def progress(self, progress: Progress) -> None:
        """Pass progress to the observer."""
        self._tell(lambda: self._observer.progress(progress))

    def finished(self, result: Result) -> None:
        """Pass the result to the observer."""
        self._tell(lambda: self._observer.finished(result))

    def warned(self, text: str) -> None:
        """Pass a warning to the observer."""
        self._tell(lambda: self._observer.warned(text))

    def _tell(self, call: Callable[[], None]) -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - a failing display must not stop tuning
            if not self._has_observer_failed:
                self._has_observer_failed = True
                self.warned(f"the display of the tuning run failed: {error!r}; tuning goes on")
