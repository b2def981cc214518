# SPDX-License-Identifier: Apache-2.0
"""Shows of an unasked tuning run only a verdict that changes the config in force; the rest at level `info`."""

from collections.abc import Callable

from ringtune.system.console import Console
from ringtune.tuner import Progress, Result

from .display import result_text
from .own_line import write_own_line


class QuietDisplay:
    """Observer that is silent unless the config in force changes. Used from the tuning thread alone."""

    def __init__(self, console: Console, log_path: str | None, study_page: Callable[[], str | None]) -> None:
        """Show verdicts as `TuningDisplay` does, see there, and the rest on `console`."""
        self._console = console
        self._log_path = log_path
        self._study_page = study_page
        self._has_adopted = False

    def progress(self, progress: Progress) -> None:
        """Ignore it: an unasked run shows no progress."""

    def finished(self, result: Result) -> None:
        """Show a verdict by which a config was adopted, or given up again."""
        text = result_text(result, self._log_path, self._study_page())
        if result.adopted or self._has_adopted:
            write_own_line(text)
        else:
            self._console.info(text)
        self._has_adopted = result.adopted

    def warned(self, text: str) -> None:
        """Show a warning at level `info`: the job has asked for no tuner that could fail."""
        self._console.info(text)

    def waiting(self, text: str) -> None:
        """Show a wait at level `info`."""
        self._console.info(text)

    def close(self) -> None:
        """Ignore it: no line is open."""
