# SPDX-License-Identifier: Apache-2.0
"""Shows a tuning run on stderr: a live line on a terminal, plain lines now and then elsewhere, a verdict at the end."""

import time
from typing import Protocol

from rich.console import Console as Terminal
from rich.live import Live
from rich.text import Text

from ringtune.tuner import Config, Progress, Result, readable_value

from .console import write_line

PLAIN_INTERVAL_S = 5.0
REFRESH_PER_S = 4


class _Display(Protocol):
    def show(self, text: str) -> None:
        """Show the newest state."""

    def close(self) -> None:
        """Leave the terminal as it was."""


class _LiveLine:
    """One line that is redrawn in place."""

    def __init__(self, terminal: Terminal) -> None:
        self._live = Live(console=terminal, refresh_per_second=REFRESH_PER_S, transient=True, redirect_stdout=False)
        self._live.start()

    def show(self, text: str) -> None:
        self._live.update(Text(text, overflow="ellipsis", no_wrap=True))

    def close(self) -> None:
        self._live.stop()


class _PlainLines:
    """A line at most every few seconds."""

    def __init__(self) -> None:
        self._next_s = 0.0

    def show(self, text: str) -> None:
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + PLAIN_INTERVAL_S
            write_line(text)

    def close(self) -> None:
        """Nothing to restore."""


class TuningDisplay:
    """The tuner's observer, used from the tuning thread alone."""

    def __init__(self, log_path: str | None) -> None:
        """Open the display; what it is depends on what stderr is.

        Args:
            log_path: Named in the verdict, or None.
        """
        self._log_path = log_path
        terminal = Terminal(stderr=True)
        self._display: _Display | None = _LiveLine(terminal) if terminal.is_terminal else _PlainLines()

    def progress(self, progress: Progress) -> None:
        """Show where the run stands."""
        if self._display is not None:
            self._display.show(progress_text(progress))

    def finished(self, result: Result) -> None:
        """Show the verdict."""
        self.close()
        write_line(result_text(result, self._log_path))

    def warned(self, text: str) -> None:
        """Show a warning."""
        write_line(f"ringtune: warning: rank 0: {text}")

    def close(self) -> None:
        """Leave the terminal as it was; idempotent."""
        if self._display is not None:
            self._display.close()
            self._display = None


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


def result_text(result: Result, log_path: str | None) -> str:
    """Return the verdict as one paragraph."""
    parts = [f"ringtune autotune: {result.verdict}."]
    changed = changed_knobs(result.baseline, result.config)
    if result.adopted and changed:
        parts.append(f"Now in force: {changed}.")
    if result.cost_s >= 0:
        cost = f"Tuning took {result.seconds:.1f} s beside training and cost {result.cost_s:.1f} s"
    else:
        cost = f"Tuning took {result.seconds:.1f} s beside training and gained {-result.cost_s:.1f} s meanwhile"
    payback = "" if result.payback_steps is None else f", paid back after {result.payback_steps} steps"
    parts.append(f"{cost}{payback}.")
    if log_path is not None:
        parts.append(f"Log: {log_path} (ringtune review {log_path}).")
    return " ".join(part.replace("..", ".") for part in parts)


def changed_knobs(baseline: Config, config: Config) -> str:
    """Return the knobs that differ from the baseline, as `name value (was value)`."""
    return ", ".join(
        f"{name} {readable_value(name, value)} (was {readable_value(name, baseline[name])})"
        for name, value in config.items()
        if baseline[name] != value
    )
