# SPDX-License-Identifier: Apache-2.0
"""Shows a tuning run on stderr: a live line on a terminal, a plain line every few seconds elsewhere, and verdicts."""

import shlex
import threading
import time
from collections.abc import Callable
from typing import Protocol

from ringtune.system.counts import counted
from ringtune.tuner import Phase, Progress, Result, readable_changes, readable_cost, verdict_parts

from .live_line import LiveLine, find_screen
from .own_line import write_own_line

PLAIN_INTERVAL_S = 5.0


class _Lines(Protocol):
    def show(self, text: str) -> None:
        """Show the newest state."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class _PlainLines:
    """A line every few seconds while there is something to show, whether or not it is new."""

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._lock = threading.Lock()  # guards the three below
        self._text: str | None = None
        self._told_s = 0.0
        self._next_s = 0.0
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None

    def show(self, text: str) -> None:
        """Show a text when the next line is due, and again until there is another."""
        with self._lock:
            self._text, self._told_s = text, time.monotonic()
            self._write_if_due()
        if self._thread is None:
            self._closed.clear()
            self._thread = threading.Thread(target=self._repeat, name="ringtune-plain-lines", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Stop showing; `show` begins again."""
        if self._thread is None:
            return
        with self._lock:
            self._text = None
        self._closed.set()
        self._thread.join()
        self._thread = None

    def _repeat(self) -> None:
        while not self._closed.wait(max(self._next_s - time.monotonic(), 0.0)):
            with self._lock:
                self._write_if_due()

    def _write_if_due(self) -> None:
        now_s = time.monotonic()
        if self._text is None or now_s < self._next_s:
            return
        self._next_s = now_s + self._interval_s
        old_s = now_s - self._told_s
        write_own_line(self._text if old_s < self._interval_s else f"{self._text} | unchanged for {old_s:.0f} s")


class TuningDisplay:
    """Observer that shows one tuning run after the other on stderr. Used from the tuning thread alone."""

    def __init__(
        self,
        log_path: str | None,
        *,
        study_page: Callable[[], str | None] = lambda: None,
        plain_interval_s: float = PLAIN_INTERVAL_S,
    ) -> None:
        """Open the display: a live line where stderr is a terminal, plain lines elsewhere.

        Args:
            log_path: Named in the verdict, or None.
            study_page: Returns the URL of the study's page, for the next verdict; None where there is none to name.
            plain_interval_s: Seconds between lines where stderr is no terminal.
        """
        self._log_path = log_path
        self._study_page = study_page
        self._shown: str | None = None
        screen = find_screen()
        self._is_live = screen is not None
        self._display: _Lines = _PlainLines(plain_interval_s) if screen is None else LiveLine(screen)

    def progress(self, progress: Progress) -> None:
        """Show where the run stands; a decision that is only watched ends the line."""
        if progress.phase is Phase.WATCH:
            self._end()
        else:
            self._shown = progress_text(progress)
            self._display.show(self._shown)

    def finished(self, result: Result) -> None:
        """Show the verdict."""
        self._end()
        write_own_line(result_text(result, self._log_path, self._study_page()))

    def warned(self, text: str) -> None:
        """Show a warning above the run's line."""
        self._display.close()
        write_own_line(f"ringtune: warning: rank 0: {text}")
        if self._shown is not None:
            self._display.show(self._shown)

    def waiting(self, text: str) -> None:
        """Show that the job waits: as the live line on a terminal, as one line elsewhere."""
        line = f"ringtune autotune: {text}"
        if self._is_live:
            self._shown = line
            self._display.show(line)
        else:
            write_own_line(line)

    def close(self) -> None:
        """Leave the terminal as it was; idempotent."""
        self._end()

    def _end(self) -> None:
        """Show no more of the run; the next progress begins again."""
        self._shown = None
        self._display.close()


def progress_text(progress: Progress) -> str:
    """Return the live line: phase, sample, throughput, time left."""
    parts = [progress.phase.value]
    if progress.samples_total is not None:
        unit = "pair" if progress.phase.value == "adoption" else "sample"
        parts.append(f"{unit} {progress.sample}/{progress.samples_total}")
    if progress.score_bytes_per_s is not None:
        parts.append(f"{progress.score_bytes_per_s / 1e6:.1f} MB/s")
    if progress.steps_per_s is not None:
        parts.append(f"{progress.steps_per_s:.1f} steps/s")
    if progress.seconds_left is not None:
        parts.append(f"{progress.seconds_left:.0f} s left")
    return "ringtune autotune: " + " | ".join(parts)


def result_text(result: Result, log_path: str | None, study_page: str | None = None) -> str:
    """Return the verdict's first sentence, which is the answer, and below it the explanation, on indented lines.

    Args:
        result: The decision.
        log_path: The tuning log, or None.
        study_page: URL of the study's page, or None; no full stop follows, for terminals make a link of it.
    """
    first, rest = verdict_parts(result.verdict)
    parts = [f"ringtune autotune: {first}.", *(f"{sentence.removesuffix('.')}." for sentence in rest)]
    changed = readable_changes(result.baseline, result.config)
    if result.adopted and changed:
        parts.append(f"Now in force: {changed}.")
    payback = f", paid back after {counted(result.payback_steps, 'step')}" if result.payback_steps else ""
    cost = readable_cost(result.cost_s)
    parts.append(f"Tuning took {result.seconds:.1f} s, in which the job trained on, and cost {cost}{payback}.")
    if log_path is not None:
        parts.append(f"Log: {log_path} (ringtune review {shlex.quote(str(log_path))}).")
    if study_page is not None:
        parts.append(f"This job's study: {study_page}")
    return "\n  ".join(parts)
