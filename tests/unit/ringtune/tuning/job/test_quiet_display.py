# SPDX-License-Identifier: Apache-2.0
"""Text about a tuning run that was not asked for."""

from dataclasses import replace

import pytest

from ringtune.system.console import Console
from ringtune.tuning.job.quiet_display import QuietDisplay
from tests.unit.ringtune.tuning.job.news import BASELINE, PROGRESS, RESULT

KEPT = replace(RESULT, adopted=False, config=BASELINE, verdict="keeping default: no gain expected")


def shown(capfd: pytest.CaptureFixture[str], *, level: str, adopted: list[bool]) -> list[str]:
    """Return the first lines of the display of a run with these verdicts, a warning and a wait."""
    display = QuietDisplay(Console(0, level), None, lambda: None)
    display.progress(PROGRESS)
    display.warned("step times have changed")
    display.waiting("another job is tuning")
    for is_adopted in adopted:
        display.finished(RESULT if is_adopted else KEPT)
    display.close()
    return [line for line in capfd.readouterr().err.splitlines() if not line.startswith(" ")]


def test_a_run_that_changes_nothing_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    """Progress, waits, warnings and a kept default are no news."""
    assert [] == shown(capfd, level="warning", adopted=[False, False])


def test_an_adopted_config_and_its_end_are_told(capfd: pytest.CaptureFixture[str]) -> None:
    """A config comes into force, and is given up by a later check; a second kept default is silent again."""
    lines = shown(capfd, level="warning", adopted=[False, True, False, False])

    assert ["ringtune autotune: adopted: +12.3 % [9.8, 14.9].", f"ringtune autotune: {KEPT.verdict}."] == lines


def test_all_of_it_is_there_at_level_info(capfd: pytest.CaptureFixture[str]) -> None:
    """At this level the warning, the wait and the verdict are shown as well."""
    lines = shown(capfd, level="info", adopted=[False])

    assert ["step times", "another job", "keeping default"] == [
        next(word for word in ("step times", "another job", "keeping default") if word in line) for line in lines
    ]
