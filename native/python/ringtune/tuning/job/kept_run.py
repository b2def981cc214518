# SPDX-License-Identifier: Apache-2.0
"""Log sink that keeps a job's runs in the machine's memory: a decided run at once, an unfinished one as it goes on.

A trial that is ended or killed before its decision therefore leaves its samples to the next job.
"""

import threading
import time
from collections.abc import Callable

from ringtune.tuner import KeepingLog
from ringtune.tuner.logs.records import Record, RunRecord, SampleRecord
from ringtune.tuner.logs.store import WrittenPart

from .memory import Memory

KEEP_EVERY_S = 2.0
"""Interval between two writes of an unfinished run, seconds: a killed job loses no more of its samples."""


class KeptRun:
    """Keeps the newest run. `write` belongs to the tuning thread, the rest to any."""

    def __init__(self, memory: Memory, clock: Callable[[], float] = time.monotonic) -> None:
        """Keep runs in a memory.

        Args:
            memory: Keeps them; a failure ends the writes of unfinished runs.
            clock: Monotonic clock, seconds.
        """
        self._memory = memory
        self._clock = clock
        self._lock = threading.Lock()  # guards everything below; `close` may come from another thread
        self._log = KeepingLog()
        self._written: WrittenPart | None = None
        self._next_s = clock()
        self._is_kept = True  # nothing is left to write
        self._has_failed = False

    def write(self, record: Record) -> None:
        """Take a record; write the new records of an unfinished run if it is due."""
        with self._lock:
            if isinstance(record, RunRecord):
                self._keep_unfinished()  # of the run before
                self._written = None
            self._log.write(record)
            self._is_kept = False
            if isinstance(record, SampleRecord) and self._clock() >= self._next_s:
                self._keep_unfinished()

    def decided(self) -> None:
        """Write a finished run."""
        with self._lock:
            self._written = self._memory.keep(self._log.finished_run(), self._written)
            self._is_kept = True

    def close(self) -> None:
        """Write the rest of an unfinished run; idempotent."""
        with self._lock:
            self._keep_unfinished()

    def _keep_unfinished(self) -> None:
        records = self._log.unfinished_run()
        if self._is_kept or self._has_failed or not records or self._memory.store is None:
            return
        self._written = self._memory.keep(records, self._written)
        self._has_failed = self._written is None
        self._is_kept = True
        self._next_s = self._clock() + KEEP_EVERY_S
