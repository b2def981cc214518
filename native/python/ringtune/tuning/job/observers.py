# SPDX-License-Identifier: Apache-2.0
"""Observers of a tuning job as one list, and the observer that writes to the engine's timeline."""

from collections.abc import Callable, Sequence
from typing import Protocol

from ringtune.tuner import Observer, Progress, Result

from .display import progress_text


class JobObserver(Observer, Protocol):
    """An observer that is closed when the tuning job ends, and that hears of its waits."""

    def waiting(self, text: str) -> None:
        """Show that the job waits for its turn, or that it has come."""

    def close(self) -> None:
        """Release open resources; idempotent."""


class Observers:
    """Fans progress, results and warnings out to observers. Used from the tuning thread alone."""

    def __init__(self, observers: Sequence[JobObserver], warn: Callable[[str], None]) -> None:
        """Serve each of `observers`, in this order.

        Args:
            observers: One that raises is dropped, and closed with the others.
            warn: Shows one warning for each that raised.
        """
        self._all = tuple(observers)
        self._served = list(observers)
        self._warn = warn

    def progress(self, progress: Progress) -> None:
        """Show all of them where the run stands."""
        self._serve(lambda observer: observer.progress(progress))

    def finished(self, result: Result) -> None:
        """Show all of them the result."""
        self._serve(lambda observer: observer.finished(result))

    def warned(self, text: str) -> None:
        """Show all of them a warning."""
        self._serve(lambda observer: observer.warned(text))

    def waiting(self, text: str) -> None:
        """Show all of them that the job waits for its turn, or that it has come."""
        self._serve(lambda observer: observer.waiting(text))

    def close(self) -> None:
        """Close all, the last one first, also those that were dropped."""
        for observer in reversed(self._all):
            self._returns(observer, lambda observer: observer.close())

    def _serve(self, call: Callable[[JobObserver], None]) -> None:
        self._served = [observer for observer in self._served if self._returns(observer, call)]

    def _returns(self, observer: JobObserver, call: Callable[[JobObserver], None]) -> bool:
        """Make a call; return whether it came to its end."""
        try:
            call(observer)
        except Exception as error:  # noqa: BLE001  (an observer must not stop tuning)
            self._warn(f"{type(observer).__name__} failed and hears no more of the tuning run: {error!r}")
            return False
        return True


class Timeline(Protocol):
    """The part of `_engine.Engine` that is used."""

    def timeline_event(self, name: str, detail: str) -> None:
        """See `_engine.Engine`."""


class TimelineObserver:
    """Writes samples, verdicts and warnings into the engine's timeline, beside the engine's own events."""

    def __init__(self, timeline: Timeline) -> None:
        """Write to `timeline`."""
        self._timeline = timeline

    def progress(self, progress: Progress) -> None:
        """Note a sample, or a pair of the adoption test."""
        self._timeline.timeline_event(f"tuner {progress.phase.value}", progress_text(progress))

    def finished(self, result: Result) -> None:
        """Note the verdict."""
        self._timeline.timeline_event("tuner verdict", result.verdict)

    def warned(self, text: str) -> None:
        """Note a warning."""
        self._timeline.timeline_event("tuner warning", text)

    def waiting(self, text: str) -> None:
        """Note a wait."""
        self._timeline.timeline_event("tuner waits", text)

    def close(self) -> None:
        """Leave the timeline open: the engine closes it."""
