# SPDX-License-Identifier: Apache-2.0
"""Puts what the tuner does into the engine's timeline, beside what the engine does."""

from typing import Protocol

from ringtune.tuner import Progress, Result

from .progress import TuningDisplay, progress_text


class Timeline(Protocol):
    """What of `_engine.Engine` is used."""

    def timeline_event(self, name: str, detail: str) -> None:
        """See `_engine.Engine`."""


class TracedTuning:
    """The tuner's observer: passes everything on to the display, and notes it in the timeline."""

    def __init__(self, display: TuningDisplay, timeline: Timeline) -> None:
        """Stand before a display, which the caller closes."""
        self._display = display
        self._timeline = timeline

    def progress(self, progress: Progress) -> None:
        """Note a sample, or a pair of the adoption test."""
        self._timeline.timeline_event(f"tuner {progress.phase.value}", progress_text(progress))
        self._display.progress(progress)

    def finished(self, result: Result) -> None:
        """Note the verdict."""
        self._timeline.timeline_event("tuner verdict", result.verdict)
        self._display.finished(result)

    def warned(self, text: str) -> None:
        """Note a warning."""
        self._timeline.timeline_event("tuner warning", text)
        self._display.warned(text)
