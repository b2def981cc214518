# SPDX-License-Identifier: Apache-2.0
"""Users' callbacks for news of the tuner: each runs on a thread of its own, behind a short queue.

A callback that writes to a slow server holds up neither training nor tuning, and one that hangs is left behind at the
end of the job. One that raises is closed at once and dropped, with one warning.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ringtune.errors import RingtuneError
from ringtune.tuner import Progress, Result

QUEUE_CALLS = 256
"""Longest queue, in calls: more than a job's first search makes. Further calls are left out."""
DRAIN_S = 1.5  # time for all callbacks together at the end of the job, seconds; less than `thread.STOP_LIMIT_S`

_Call = Callable[["Callback"], None]


@dataclass(frozen=True)
class Moment:
    """State of the training at the time of the tuner's news.

    Attributes:
        step: Optimizer steps that the job has taken.
        step_ms: Median step time of the newest valid window, milliseconds; None before the first.
    """

    step: int
    step_ms: float | None = None


class Callback:
    """Receiver of the tuner's news on rank 0, on a thread of its own; derive from it, and override methods at will."""

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Take the state of the tuning run: after each sample, and when a phase begins."""

    def finished(self, result: Result, moment: Moment) -> None:
        """Take the result of a tuning run; a later run may begin when step times drift."""

    def warned(self, text: str, moment: Moment) -> None:
        """Take a warning of the tuner."""

    def close(self) -> None:
        """Flush and close open files and connections: the job's tuning has ended, or this callback raised."""


class RegisteredCallbacks:
    """The callbacks that a process has registered; safe to use from any thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._callbacks: tuple[Callback, ...] = ()

    def add(self, callback: Callback) -> None:
        """Register a callback; a second registration has no effect."""
        with self._lock:
            if all(other is not callback for other in self._callbacks):
                self._callbacks = (*self._callbacks, callback)

    def remove(self, callback: Callback) -> None:
        """Take a callback out; one that is not registered is ignored."""
        with self._lock:
            self._callbacks = tuple(other for other in self._callbacks if other is not callback)

    def listed(self) -> tuple[Callback, ...]:
        """Return the callbacks in the order in which they came."""
        return self._callbacks


class CallbackObserver:
    """The tuner's observer that passes everything on to the callbacks; used from the tuning thread alone."""

    def __init__(
        self, registered: RegisteredCallbacks, moment: Callable[[], Moment], warn: Callable[[str], None]
    ) -> None:
        """Serve the callbacks that are registered at the time of a call.

        Args:
            registered: The callbacks; those that are added later get later news.
            moment: Returns the state of the training; may raise `RingtuneError` once the job is over.
            warn: Shows a warning to people.
        """
        self._registered = registered
        self._moment = moment
        self._newest = Moment(step=0)
        self._warn = warn
        self._threads: dict[int, _CallbackThread] = {}  # by the callback's id: a user's class may have no hash

    def progress(self, progress: Progress) -> None:
        """Pass on where the run stands."""
        moment = self._now()
        self._tell(lambda callback: callback.progress(progress, moment))

    def finished(self, result: Result) -> None:
        """Pass on the result."""
        moment = self._now()
        self._tell(lambda callback: callback.finished(result, moment))

    def warned(self, text: str) -> None:
        """Pass on a warning."""
        moment = self._now()
        self._tell(lambda callback: callback.warned(text, moment))

    def waiting(self, text: str) -> None:
        """Ignore it: callbacks hear of runs."""

    def close(self) -> None:
        """Let the callbacks finish their queues; one that takes too long is left behind, with a warning."""
        end_s = time.monotonic() + DRAIN_S
        for thread in self._threads.values():
            thread.put_end()
        late = [thread.name for thread in self._threads.values() if not thread.ends_before(end_s)]
        if late:
            self._warn(f"{', '.join(late)}: did not finish within {DRAIN_S:g} s; the last news may be missing")

    def _now(self) -> Moment:
        try:
            self._newest = self._moment()
        except RingtuneError:  # the engine is gone; the last state is near enough
            return self._newest
        return self._newest

    def _tell(self, call: _Call) -> None:
        for callback in self._registered.listed():
            if id(callback) not in self._threads:
                self._threads[id(callback)] = _CallbackThread(callback, self._warn)
            self._threads[id(callback)].put(call)


class _CallbackThread:
    """One callback's thread and queue."""

    def __init__(self, callback: Callback, warn: Callable[[str], None]) -> None:
        self.name = f"callback {type(callback).__name__}"
        self._callback = callback
        self._warn = warn
        self._calls: queue.SimpleQueue[_Call | None] = queue.SimpleQueue()
        self._is_behind = False
        self._has_failed = False
        # A daemon: a callback that hangs must not keep the process alive.
        self._thread = threading.Thread(target=self._run, name=f"ringtune {self.name}", daemon=True)
        self._thread.start()

    def put(self, call: _Call) -> None:
        """Queue a call; it is left out, with one warning, where too many wait."""
        if self._has_failed:  # people were warned then
            return
        if self._calls.qsize() < QUEUE_CALLS:
            self._calls.put(call)
        elif not self._is_behind:
            self._is_behind = True
            self._warn(f"{self.name}: is {QUEUE_CALLS} calls behind; calls are left out from now on")

    def put_end(self) -> None:
        """Queue the end: the callback is closed after the calls that wait."""
        self._calls.put(None)

    def ends_before(self, end_s: float) -> bool:
        """Wait for the end of the thread until a time of the monotonic clock; return whether it has ended."""
        self._thread.join(max(0.0, end_s - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Make the queued calls; whatever they raise, the callback is closed."""
        self._has_failed = not self._returns(self._make_calls)
        self._returns(self._callback.close)

    def _make_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call(self._callback)

    def _returns(self, action: Callable[[], None]) -> bool:
        """Return whether an action came to its end; only the first failure is shown, for others follow from it."""
        try:
            action()
        except Exception as error:  # noqa: BLE001  (a callback must disturb neither tuning nor training)
            if not self._has_failed:
                self._warn(f"{self.name} failed and hears no more of the tuner: {error!r}")
            return False
        return True
