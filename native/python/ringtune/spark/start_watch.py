# SPDX-License-Identifier: Apache-2.0
"""Watch over the start of a stage: cancels a job whose tasks have not all started within a limit."""

import secrets
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol

from pyspark.sql import SparkSession

from ringtune.errors import ConfigError

from .active_session import is_connect

_POLL_S = 1.0
_CANCEL_AGAIN_S = 0.1


class _Tracker(Protocol):
    """A kind of session's way to count the tasks of a job, and to end it."""

    def open(self) -> None:
        """Mark the jobs that this thread starts from now on."""

    def close(self) -> None:
        """Mark no more of them."""

    def started(self) -> int:
        """Return how many of the job's tasks have started."""

    def cancel(self) -> None:
        """End the job."""


class StartWatch:
    """Context of one job: ends it if not all of its tasks have started in time, or if the block is left by an error."""

    def __init__(self, session: SparkSession, ranks: int, limit_s: float) -> None:
        """Watch over the next job of this thread.

        Args:
            session: Session in which the job runs.
            ranks: Number of its tasks.
            limit_s: Time in which they must start.
        """
        tag = f"ringtune-{secrets.token_hex(8)}"
        self._tracker: _Tracker = (_ConnectTracker if is_connect(session) else _ClassicTracker)(session, tag)
        self._ranks = ranks
        self._limit_s = limit_s
        self._ended = threading.Event()
        self._overdue: int | None = None
        self._thread = threading.Thread(target=self._watch, name=tag, daemon=True)

    def __enter__(self) -> None:
        self._tracker.open()
        self._thread.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """See the class; raises `ConfigError` in place of the cancelled job's error."""
        self._ended.set()
        self._thread.join()
        self._tracker.close()
        if error is not None and self._overdue is not None:
            raise ConfigError(
                f"{self._overdue} of {self._ranks} ranks had started after {self._limit_s:g} s, the start_timeout; "
                f"Spark starts them together, once {self._ranks} task slots are free at the same time: look for other "
                "jobs of this application and for missing executors, or raise start_timeout"
            ) from error
        if error is not None and not isinstance(error, Exception):
            self._tracker.cancel()

    def _watch(self) -> None:
        waited_s = 0.0
        started = 0
        while started < self._ranks and waited_s < self._limit_s:
            if self._ended.wait(min(_POLL_S, self._limit_s - waited_s)):
                return
            waited_s += _POLL_S
            started = max(started, self._tracker.started())
        if started < self._ranks:
            self._overdue = started
            self._tracker.cancel()
            while not self._ended.wait(_CANCEL_AGAIN_S):  # Spark forgets what came before the job
                self._tracker.cancel()


class _ClassicTracker:
    """Counts by the tracker of the driver's `SparkContext`."""

    def __init__(self, session: SparkSession, tag: str) -> None:
        self._context: Any = session.sparkContext
        self._tag = tag

    def open(self) -> None:
        self._context.addJobTag(self._tag)

    def close(self) -> None:
        self._context.removeJobTag(self._tag)

    def started(self) -> int:
        tracker = self._context.statusTracker()
        java: Any = self._context._jsc.sc().statusTracker()  # noqa: SLF001  (Spark's Python has no way to it)
        jobs = [tracker.getJobInfo(job) for job in java.getJobIdsForTag(self._tag)]
        stages = [tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds]
        return sum(stage.numActiveTasks + stage.numCompletedTasks for stage in stages if stage is not None)

    def cancel(self) -> None:
        self._context.cancelJobsWithTag(self._tag)


class _ConnectTracker:
    """Counts by the progress reports of Spark Connect's server."""

    def __init__(self, session: SparkSession, tag: str) -> None:
        self._session: Any = session
        self._tag = tag
        self._started = 0

    def open(self) -> None:
        self._session.addTag(self._tag)
        self._session.registerProgressHandler(self._take)

    def close(self) -> None:
        self._session.removeProgressHandler(self._take)
        self._session.removeTag(self._tag)

    def started(self) -> int:
        return self._started

    def cancel(self) -> None:
        self._session.interruptTag(self._tag)

    def _take(self, stages: Iterable[Any] | None, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        del operation_id, done
        completed = sum(stage.num_completed_tasks for stage in stages or ())
        self._started = max(self._started, inflight_tasks + completed)
