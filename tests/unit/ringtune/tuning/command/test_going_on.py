# SPDX-License-Identifier: Apache-2.0
"""The choice between going on from a run of the log and beginning anew, and the line that says so."""

import pytest

from ringtune.tuner import Config, StepTimes, VoidReason
from ringtune.tuner.logs.earlier import NOTHING_EARLIER, EarlierRuns
from ringtune.tuner.logs.reader import RunLog
from ringtune.tuner.logs.records import AdoptionRecord, ResultRecord, RunRecord, sample_record
from ringtune.tuner.sample import Phase, Sample
from ringtune.tuning.command.going_on import chosen_start

BUDGET = {"max_samples": 2, "max_steps": None, "max_seconds": None}
LARGER = {"max_samples": 9}


def logged(*, is_finished: bool, unix_time_s: float = 1_700_000_000.0) -> EarlierRuns:
    """Return a run with a config that was measured and one that failed."""
    run = RunRecord(0.0, "a", 1, unix_time_s, None, {}, {}, {}, {}, {}, {"k": 0}, 0, BUDGET)
    good = Sample(1, Config({"k": 1}), Phase.SEARCH, 1, 1.0, StepTimes.of([5.0]), 1)
    bad = Sample(2, Config({"k": 2}), Phase.SEARCH, 2, 1.0, StepTimes.of([]), 0, VoidReason.LAUNCH_FAILED)
    records = [sample_record(sample, t_s=1.0, run_id="a", window=0) for sample in (good, bad)]
    log = RunLog("a", run, records)
    if is_finished:
        log.adoption = AdoptionRecord(2.0, "a", [], None, None, None, "keeping default: flat")
        log.result = ResultRecord(2.0, "a", {"k": 0}, False, None, 0.0, None)
    return EarlierRuns((log,))


@pytest.mark.parametrize(
    ("is_finished", "budget", "is_anew", "goes_on", "said"),
    [
        (False, BUDGET, False, True, "resuming: 1 config was measured before, 1 failed"),
        (True, LARGER, False, True, "going on from the run of 2023-11-1"),
        (True, LARGER, False, True, ": 1 config was measured before, 1 failed"),
        (True, BUDGET, False, False, ": keeping default: flat. Everything is measured anew; a budget larger than "),
        (True, BUDGET, False, False, "a budget larger than --max-samples 2 would go on from it"),
        (True, LARGER, True, False, "keeping default: flat. Everything is measured anew"),
        (False, BUDGET, True, False, "beginning anew: the unfinished run of 2023-11-1"),
    ],
)
def test_a_run_of_the_log_goes_on_if_it_is_unfinished_or_has_more_budget(
    budget: dict[str, float | None], said: str, *, is_finished: bool, is_anew: bool, goes_on: bool
) -> None:
    """The same budget asks for another measurement; the line says that there is one already."""
    found = logged(is_finished=is_finished)

    start, line = chosen_start(found, budget, is_anew=is_anew)

    assert (found if goes_on else NOTHING_EARLIER) == start
    assert said in line
    assert goes_on or "going on" not in line


def test_a_log_without_such_a_run_is_no_news() -> None:
    """The first run of a log begins without a line."""
    assert (NOTHING_EARLIER, "") == chosen_start(NOTHING_EARLIER, BUDGET)


def test_a_damaged_time_is_not_shown() -> None:
    """A line of a foreign log may have any number."""
    _, line = chosen_start(logged(is_finished=True, unix_time_s=1e300), LARGER)

    assert "going on from the run of an unknown time: " in line
