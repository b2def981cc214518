# SPDX-License-Identifier: Apache-2.0
"""Log sink that queues a job's results for the service; a failure costs only one warning.

Only a job's first run is reported: later runs, on a machine that has changed or against the config in force then,
answer another question.
"""

from collections.abc import Callable

from ringtune.tuner.logs.records import AdoptionRecord, EndRecord, Record, ResultRecord, RunRecord

from .delivery import payload_of
from .results import ENDED_EARLY, Results, facts_of, study_of
from .spool import Pending

Begin = Callable[[RunRecord], Pending]


class ReportLog:
    """Log sink: queues the results of the job's first run for the service. It never raises."""

    def __init__(self, begin: Begin, *, wake: Callable[[], None], say: Callable[[str], None]) -> None:
        """Wait for the first record.

        Args:
            begin: Called with the job's first record; returns the queue that takes its results.
            wake: Called when there is something new in the queue.
            say: Shows a warning to people.
        """
        self._begin = begin
        self._wake = wake
        self._say = say
        self._has_failed = False
        self._run_id: str | None = None
        self._report: _RunReport | None = None

    def write(self, record: Record) -> None:
        """Queue the service's part of a record; a failure is shown once."""
        try:
            self._queue_result(record)
        except Exception as error:  # noqa: BLE001  (reporting never fails tuning)
            if not self._has_failed:
                self._has_failed = True
                self._say(f"results are missing in the report to the service: {error}")

    def close(self) -> None:
        """Leave the report open: the link ends it, after the tuning thread has ended or was left behind."""

    def end(self) -> None:
        """Report that the job has ended, if its first run came to no decision; idempotent, and never raises."""
        try:
            if self._report is not None and self._report.end():
                self._wake()
        except Exception as error:  # noqa: BLE001  (as above; a job that says nothing of its end counts as lost there)
            self._say(f"the service is not told of the job's end: {error}")

    def _queue_result(self, record: Record) -> None:
        if isinstance(record, RunRecord) and self._run_id is None:
            self._run_id = record.run_id
            self._report = _RunReport(record, self._begin(record))
            self._report.announce()
            self._wake()
        elif self._report is not None and record.run_id == self._run_id and self._report.take(record):
            self._wake()


class _RunReport:
    """The report of one run."""

    def __init__(self, run: RunRecord, queue: Pending) -> None:
        self._run = run
        self._verdict: str | None = None
        self._is_decided = False
        self._study = study_of(run)
        self._results = Results(run)
        self._queue = queue

    def take(self, record: Record) -> bool:
        """Queue the result and the state that a record has; return whether there was one."""
        result = self._results.take(record)
        if result is not None:
            self._queue.append(payload_of(self._study, result))
        if isinstance(record, AdoptionRecord | EndRecord):
            self._verdict = record.verdict
        if isinstance(record, ResultRecord):
            self._is_decided = True
            self._queue_state("adopted" if record.adopted else "keeping_default", self._verdict)
        return result is not None or isinstance(record, ResultRecord)

    def announce(self) -> None:
        """Queue the job's name and that it runs."""
        self._queue.append(payload_of(self._study, None, facts_of(self._run)))

    def end(self) -> bool:
        """Queue that the job ended early, unless it came to a decision; return whether anything was queued."""
        if self._is_decided:
            return False
        self._is_decided = True
        self._queue_state(ENDED_EARLY, self._verdict)
        return True

    def _queue_state(self, state: str, verdict: str | None) -> None:
        self._queue.append(payload_of(self._study, None, facts_of(self._run, state, verdict)))
