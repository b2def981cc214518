# SPDX-License-Identifier: Apache-2.0
"""A tuning log that is a list of sinks: each gets every record, and none can keep a record from the others."""

from collections.abc import Callable, Sequence

from ringtune.tuner import TuningLog
from ringtune.tuner.logs.records import Record


class LogSinks:
    """Fans records out to sinks, in their order. Used from the tuning thread; `close` from any."""

    def __init__(self, sinks: Sequence[TuningLog]) -> None:
        """Write to each of `sinks`, and close them all with this log."""
        self._sinks = tuple(sinks)

    def write(self, record: Record) -> None:
        """Append a record to every sink.

        Raises:
            Exception: The error of the first failing sink, once all sinks were served.
        """
        self._serve(lambda sink: sink.write(record))

    def close(self) -> None:
        """Close every sink; idempotent as they are."""
        self._serve(lambda sink: sink.close())

    def _serve(self, call: Callable[[TuningLog], None]) -> None:
        errors: list[Exception] = []
        for sink in self._sinks:
            try:
                call(sink)
            except Exception as error:  # noqa: BLE001, PERF203  (raised below; the other sinks come first)
                errors.append(error)
        if errors:
            raise errors[0]
