# SPDX-License-Identifier: Apache-2.0
"""Choice between going on from the newest run of a command in the log, and beginning anew; with a line that says so."""

import time
from collections.abc import Mapping

from ringtune.system.counts import counted
from ringtune.tuner.logs.earlier import LIMITS, NOTHING_EARLIER, EarlierRuns

MAX_UNIX_TIME_S = 1e11
"""Upper bound of a plausible start time; a later one comes from a damaged log."""


def chosen_start(
    found: EarlierRuns, budget: Mapping[str, float | None], *, is_anew: bool = False
) -> tuple[EarlierRuns, str]:
    """Return the runs to go on from, and a line for people; empty where the log has none.

    An unfinished run is resumed. A finished one is gone on from if the budget is larger now; with the same budget its
    user wants another measurement, perhaps of a program that has changed.

    Args:
        found: The newest run of the question, from `find_earlier`.
        budget: Limits of the new run, by the names in `LIMITS`.
        is_anew: True if the user wants a search without earlier runs.
    """
    if not found.measured and not found.failed and not found.is_finished:
        return NOTHING_EARLIER, ""
    measured, failed = counted(len(found.measured), "config"), len(found.failed)
    counts = f"{measured} {'was' if len(found.measured) == 1 else 'were'} measured before, {failed} failed"
    if is_anew or (found.is_finished and not found.leave_room_in(budget)):
        return NOTHING_EARLIER, _anew_text(found, is_anew=is_anew)
    if found.is_finished:
        return found, f"going on from the run of {_when(found)}: {counts}"
    return found, f"resuming: {counts}"


def _anew_text(found: EarlierRuns, *, is_anew: bool) -> str:
    if not found.is_finished:
        return f"beginning anew: the unfinished run of {_when(found)} is not resumed"
    text = f"the log has a finished run of {_when(found)}: {found.verdict}. Everything is measured anew"
    if is_anew:
        return text
    return f"{text}; a budget larger than {_budget_text(found)} would go on from it"


def _budget_text(found: EarlierRuns) -> str:
    """Return the limits of the newest run as its options."""
    run = found.logs[-1].run
    limits = {} if run is None else run.steps_budget
    given = [f"--{name.replace('_', '-')} {limits[name]}" for name in LIMITS if limits.get(name) is not None]
    return " and ".join(given) or "its own"


def _when(found: EarlierRuns) -> str:
    began_s = found.unix_time_s
    if began_s is None or not 0 < began_s < MAX_UNIX_TIME_S:
        return "an unknown time"
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(began_s))
