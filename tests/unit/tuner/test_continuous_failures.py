# SPDX-License-Identifier: Apache-2.0
"""Tests of searches that fail while a job runs: one is no reason to stop, many are."""

from ringtune.tuner.continuous import MOST_FAILURES
from tests.unit.tuner.test_continuous import ChangingTarget, late_optimum, tune_for

BROKEN = "ZeroDivisionError"


def test_a_later_search_that_fails_is_tried_again() -> None:
    """Not at once; what is in force is watched meanwhile, and the next search finds what this one could not."""
    target = ChangingTarget(late_optimum)

    job = tune_for(target, hours=6, fails=[1])

    assert 1 == sum(BROKEN in verdict for verdict in job.verdicts)
    assert BROKEN in job.verdicts[2]
    assert job.verdicts[4].startswith(("adopted", "keeping what is in force: the best"))


def test_searches_that_fail_again_and_again_end_the_watch() -> None:
    """There is no reason to hope for the next."""
    target = ChangingTarget(late_optimum)

    job = tune_for(target, hours=200, fails=range(1, 99))

    assert MOST_FAILURES == sum(BROKEN in verdict for verdict in job.verdicts)


def test_a_first_search_that_fails_is_not_watched() -> None:
    """Nothing was decided."""
    job = tune_for(ChangingTarget(late_optimum), hours=3, fails=[0])

    assert 1 == len(job.asked) == len(job.results)
