# SPDX-License-Identifier: Apache-2.0
"""Shows a tuning run on stderr: a live line where a person looks, plain lines now and then elsewhere, and verdicts."""

import time
from typing import Protocol

from ringtune.tuner import Config, Phase, Progress, Result, readable_cost, readable_value

from .console import write_line
from .live_line import LiveLine, find_screen

PLAIN_INTERVAL_S = 5.0


class _Display(Protocol):
    def show(self, text: str) -> None:
        """Show the newest state."""

    def close(self) -> None:
        """Leave the terminal as it was."""


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
    """The tuner's observer, used from the tuning thread alone. It shows one run after the other."""

    def __init__(self, log_path: str | None) -> None:
        """Open the display; what it is depends on where stderr ends.

        Args:
            log_path: Named in the verdict, or None.
        """
        self._log_path = log_path
        screen = find_screen()
        self._display: _Display = _PlainLines() if screen is None else LiveLine(screen)

    def progress(self, progress: Progress) -> None:
        """Show where the run stands; a decision that is only watched is no news."""
        if progress.phase is Phase.WATCH:
            self._display.close()
        else:
            self._display.show(progress_text(progress))

    def finished(self, result: Result) -> None:
        """Show the verdict."""
        self._say(result_text(result, self._log_path))

    def warned(self, text: str) -> None:
        """Show a warning."""
        self._say(f"ringtune: warning: rank 0: {text}")

    def close(self) -> None:
        """Leave the terminal as it was; idempotent."""
        self._display.close()

    def _say(self, text: str) -> None:
        """Write a line that stays; a live line comes back with the next progress."""
        self._display.close()
        write_line(text)


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
    payback = f", paid back after {result.payback_steps} steps" if result.payback_steps else ""
    cost = readable_cost(result.cost_s)
    parts.append(f"Tuning took {result.seconds:.1f} s, in which the job trained on, and cost {cost}{payback}.")
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
