# SPDX-License-Identifier: Apache-2.0
"""Tests of searches that fail while a job runs: one is no reason to stop, many are."""

from ringtune.tuner import Config, TargetClosed
from ringtune.tuner.policy.continuous import MOST_FAILURES
from tests.unit.tuner.policy.changing_target import CHANGE_S, HOUR_S, ChangingTarget, late_optimum, tune_for

BROKEN = "ZeroDivisionError"
REFUSED = "refused"


class Stubborn(ChangingTarget):
    """Once the job has changed, takes no config for so many times; closed, it says so like the engine."""

    def __init__(self, refusals: int) -> None:
        """Refuse so often."""
        super().__init__(late_optimum)
        self.refusals = refusals

    def apply(self, config: Config) -> int:
        """Refuse, or switch."""
        if self._disturbances.closes_after_windows is not None:
            raise TargetClosed("the job is over")
        if self.now_s > CHANGE_S and self.refusals:
            self.refusals -= 1
            raise RuntimeError(REFUSED)
        return super().apply(config)


def test_a_later_search_that_fails_is_tried_again() -> None:
    """Not at once; the config in force is watched meanwhile, and the next search finds the gain."""
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
    """Without a decision no config is watched."""
    job = tune_for(ChangingTarget(late_optimum), hours=3, fails=[0])

    assert 1 == len(job.asked) == len(job.results)


def test_a_target_that_takes_no_config_for_a_while_is_asked_again() -> None:
    """A config that the target refused is tried again later, when the target takes configs once more."""
    target = Stubborn(refusals=5)

    job = tune_for(target, hours=30)

    assert 0 == target.refusals
    assert 1 <= sum(REFUSED in verdict for verdict in job.verdicts) < MOST_FAILURES
    assert job.verdicts[-1].startswith(("adopted", "still adopted", "keeping what is in force"))


def test_a_target_that_never_takes_a_config_again_ends_the_watch() -> None:
    """After as many responses as any other failure, and without an error of its own."""
    job = tune_for(Stubborn(refusals=10**9), hours=200)

    assert MOST_FAILURES == sum(REFUSED in verdict for verdict in job.verdicts)


def test_a_job_that_ends_while_its_target_takes_no_config_is_noticed() -> None:
    """At the next look: no later response is waited for."""
    target = Stubborn(refusals=10**9)

    job = tune_for(target, hours=1.1)

    assert 1 == sum(REFUSED in verdict for verdict in job.verdicts)
    assert target.now_s < 1.2 * HOUR_S


def test_a_search_that_fails_leaves_what_was_known_before() -> None:
    """Each later question comes with the trials of the last search that came to an end."""
    job = tune_for(ChangingTarget(late_optimum), hours=200, fails=range(1, 99))

    assert [()] == job.asked[:1]
    assert MOST_FAILURES == len(job.asked[1:])
    assert all(earlier == job.asked[1] for earlier in job.asked[2:])
