# SPDX-License-Identifier: Apache-2.0
"""Calls what users registered to be told of the tuner: each callback on a thread of its own, behind a short queue.

So a callback that writes to a slow server holds up neither training nor tuning, and one that hangs is left behind at
the end of the job. One that raises is closed at once and dropped, with one warning.
"""

import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from ringtune.errors import RingtuneError
from ringtune.tuner import Progress, Result

QUEUE_CALLS = 256
"""More calls than a job's first search makes; where a callback is that far behind, calls are left out."""
DRAIN_S = 1.5  # at the end of the job, for all callbacks together; less than `autotune.STOP_LIMIT_S`

_Call = Callable[["Callback"], None]


@dataclass(frozen=True)
class Moment:
    """Where the training was when the tuner said something.

    Attributes:
        step: Optimizer steps that the job had taken.
        step_ms: Median step time of the newest valid window, milliseconds; None before the first.
    """

    step: int
    step_ms: float | None = None


class Callback:
    """Told of the tuner's work on rank 0, on a thread of its own; derive from it, and override what is wanted."""

    def progress(self, progress: Progress, moment: Moment) -> None:
        """Take where the tuning run stands: after each sample, and when a phase begins."""

    def finished(self, result: Result, moment: Moment) -> None:
        """Take how a tuning run ended; a later one may begin, when step times drift."""

    def warned(self, text: str, moment: Moment) -> None:
        """Take a warning of the tuner."""

    def close(self) -> None:
        """Take the end: of the job's tuning, or of this callback after it raised. Flush and close what is open."""


class RegisteredCallbacks:
    """What a process has registered; safe to use from any thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._lock = threading.Lock()
        self._callbacks: tuple[Callback, ...] = ()

    def add(self, callback: Callback) -> None:
        """Register a callback; once is enough, a second time changes nothing."""
        with self._lock:
            if all(other is not callback for other in self._callbacks):
                self._callbacks = (*self._callbacks, callback)

    def remove(self, callback: Callback) -> None:
        """Take a callback out; nothing happens where it is not registered."""
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
        """Tell whoever is registered at the time of a call.

        Args:
            registered: The callbacks; those that come later hear what comes later.
            moment: Returns where the training is; may raise `RingtuneError` once the job is over.
            warn: Tells people.
        """
        self._registered = registered
        self._moment = moment
        self._newest = Moment(step=0)
        self._warn = warn
        self._threads: dict[int, _CallbackThread] = {}  # by the callback's id: a user's class may have no hash

    def progress(self, progress: Progress) -> None:
        """Tell where the run stands."""
        moment = self._now()
        self._tell(lambda callback: callback.progress(progress, moment))

    def finished(self, result: Result) -> None:
        """Tell the result."""
        moment = self._now()
        self._tell(lambda callback: callback.finished(result, moment))

    def warned(self, text: str) -> None:
        """Tell a warning."""
        moment = self._now()
        self._tell(lambda callback: callback.warned(text, moment))

    def close(self) -> None:
        """Let the callbacks finish what they were told; who takes too long is left behind, with a warning."""
        end_s = time.monotonic() + DRAIN_S
        for thread in self._threads.values():
            thread.put_end()
        late = [thread.name for thread in self._threads.values() if not thread.ends_before(end_s)]
        if late:
            self._warn(f"{', '.join(late)}: did not finish within {DRAIN_S:g} s; what was told last may be missing")

    def _now(self) -> Moment:
        try:
            self._newest = self._moment()
        except RingtuneError:  # the engine is gone; what was true last is near enough
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
        """Have a call made after those before it; left out, with one warning, where too many wait."""
        if self._has_failed:  # and was said to have
            return
        if self._calls.qsize() < QUEUE_CALLS:
            self._calls.put(call)
        elif not self._is_behind:
            self._is_behind = True
            self._warn(f"{self.name}: is {QUEUE_CALLS} calls behind; calls are left out from now on")

    def put_end(self) -> None:
        """Have the callback closed after the calls that wait."""
        self._calls.put(None)

    def ends_before(self, end_s: float) -> bool:
        """Wait for the end of the thread until a time of the monotonic clock; return whether it has ended."""
        self._thread.join(max(0.0, end_s - time.monotonic()))
        return not self._thread.is_alive()

    def _run(self) -> None:
        """Make the calls that come; whatever they raise, the callback is closed."""
        self._has_failed = not self._returns(self._make_calls)
        self._returns(self._callback.close)

    def _make_calls(self) -> None:
        while (call := self._calls.get()) is not None:
            call(self._callback)

    def _returns(self, action: Callable[[], None]) -> bool:
        """Return whether an action came to its end; of what is raised the first is said, the next follows from it."""
        try:
            action()
        except Exception as error:  # noqa: BLE001  (whoever watches must disturb neither tuning nor training)
            if not self._has_failed:
                self._warn(f"{self.name} failed and hears no more of the tuner: {error!r}")
            return False
        return True
