# SPDX-License-Identifier: Apache-2.0
"""Tests of the reporter: listeners may fail, once heard of."""

from ringtune.tuner import Result, default_config
from ringtune.tuner.logs.records import Record, ResultRecord
from ringtune.tuner.policy.reporting import Reporter, SilentObserver
from tests.unit.tuner.recording import RecordingLog, RecordingObserver

RECORD = ResultRecord(1.0, "r", default_config().to_json(), False, None, 0.5, None)
RESULT = Result(default_config(), default_config(), False, "keeping default", None, None, None, 0.0, None, 0, 0.0, True)


class Failing(RecordingLog):
    """A log that fails twice, then works."""

    failures = 2

    def write(self, record: Record) -> None:
        """Fail, or remember."""
        if self.failures:
            self.failures -= 1
            raise OSError("full")
        super().write(record)


def test_a_failing_log_warns_once_and_is_tried_again() -> None:
    """Records after the failure are written, for the disk may have room again."""
    log, observer = Failing(), RecordingObserver()
    reporter = Reporter(log, observer)

    for _ in range(4):
        reporter.write(RECORD)

    assert [RECORD, RECORD] == log.records
    assert ["the tuning log misses records: full; tuning goes on, check the disk"] == observer.warnings


def test_an_observer_whose_warnings_fail_too_is_let_be() -> None:
    """No error is raised and no call recurses."""

    class Mute(SilentObserver):
        """Cannot even warn."""

        def warned(self, text: str) -> None:
            """Fail."""
            raise RuntimeError(text)

        def finished(self, result: Result) -> None:
            """Fail."""
            raise RuntimeError(result.verdict)

    reporter = Reporter(Failing(), Mute())

    reporter.write(RECORD)
    reporter.finished(RESULT)
    reporter.warned("x")


def test_results_and_warnings_are_passed_on() -> None:
    """Results and warnings reach the display."""
    observer = RecordingObserver()
    reporter = Reporter(RecordingLog(), observer)

    reporter.warned("careful")
    reporter.finished(RESULT)

    assert (["careful"], [RESULT]) == (observer.warnings, observer.results)
