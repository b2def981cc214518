# SPDX-License-Identifier: Apache-2.0
"""What results are worth: one vote per job, robust against any single one."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.service.domain.evidence import E9, job_estimate, judge, tally

LIMIT = 4.0
PRECISE = 1e-6
Estimates = list[tuple[float, float]]
honest = st.lists(st.tuples(st.floats(-0.5, 0.5), st.floats(0.0, 0.01)), min_size=2, max_size=12)


def row(**columns: float | None) -> dict[str, float | None]:
    """Return the columns of a ledger row that count."""
    return {"median_step_ms": None, "speedup": None, "ci_low": None, "ci_high": None, **columns}


def agreeing(*speedups: float) -> Estimates:
    """Return estimates of jobs that measured these speed-ups precisely."""
    return [(math.log1p(speedup), PRECISE) for speedup in speedups]


def test_a_job_is_compared_with_its_own_baseline() -> None:
    """The estimate is ln(baseline / config) of the job's mean windows; without a baseline there is none."""
    config, baseline = tally(row(median_step_ms=80.0)), tally(row(median_step_ms=100.0))

    estimate = job_estimate(config, baseline)

    assert estimate is not None
    assert math.log(1.25) == pytest.approx(estimate[0], abs=1e-8)
    assert job_estimate(config, None) is None
    assert job_estimate(config, tally(row())) is None


def test_a_paired_test_counts_more_than_windows() -> None:
    """Where a job tested a config in pairs, its windows are not used; the interval gives the variance."""
    test = tally(row(median_step_ms=10.0, speedup=0.1, ci_low=0.05, ci_high=0.15))

    estimate = job_estimate(test, tally(row(median_step_ms=100.0)))

    assert estimate is not None
    assert math.log1p(0.1) == pytest.approx(estimate[0], abs=1e-8)
    half_width = (math.log(1.15) - math.log(1.05)) / 2
    assert half_width == pytest.approx(1.96 * math.sqrt(estimate[1]), rel=1e-4)


def test_sums_do_not_depend_on_the_order() -> None:
    """Whole numbers: adding windows in any order gives the same sums, to the last digit."""
    steps = [0.1 + 0.37 * n for n in range(50)]

    forward = sum(tally(row(median_step_ms=step))["log_step_e9"] for step in steps)
    backward = sum(tally(row(median_step_ms=step))["log_step_e9"] for step in reversed(steps))

    assert forward == backward
    assert sum(map(math.log, steps)) == pytest.approx(forward / E9, abs=1e-7)


def test_two_jobs_that_agree_confirm_and_one_does_not() -> None:
    """Confirmed needs a second job and a lower bound above zero."""
    one, two, none = judge(agreeing(0.2), LIMIT), judge(agreeing(0.2, 0.21), LIMIT), judge([], LIMIT)

    assert (True, False) == (one.is_promising, one.is_confirmed)
    assert (True, True) == (two.is_promising, two.is_confirmed)
    assert none.interval is None
    assert not judge(agreeing(0.002, 0.003), LIMIT).is_confirmed
    assert not judge(agreeing(-0.1, -0.12), LIMIT).is_promising


def test_jobs_that_do_not_agree_confirm_nothing() -> None:
    """A wide scatter makes a wide interval."""
    verdict = judge(agreeing(0.02, 0.6), LIMIT)

    assert verdict.is_promising
    assert not verdict.is_confirmed


def test_claims_beyond_the_limit_are_left_out() -> None:
    """A job that claims more than can be is no second job."""
    verdict = judge(agreeing(0.2, LIMIT + 0.1), LIMIT)

    assert not verdict.is_confirmed
    assert verdict == judge(agreeing(0.2), LIMIT)


@given(honest, st.floats(-1.6, 1.6))
def test_one_more_job_moves_the_estimate_no_further_than_the_others_reach(jobs: Estimates, lie: float) -> None:
    """Whatever one job says, the result lies between what the others measured."""
    verdict = judge([*jobs, (lie, 0.0)], LIMIT)

    assert verdict.interval is not None
    centre = math.log1p(verdict.interval.speedup)
    assert min(d for d, _ in jobs) - 1e-9 <= centre <= max(d for d, _ in jobs) + 1e-9
    assert verdict.interval.low <= verdict.interval.speedup <= verdict.interval.high


@pytest.mark.parametrize("lie", [-0.9, -0.3, 0.0, 0.5, 3.9])
def test_one_job_neither_breaks_nor_sharpens_what_two_agreed_on(lie: float) -> None:
    """Two jobs at a speed-up of 20 %: a third cannot undo it, nor raise the lower bound above theirs."""
    before = judge(agreeing(0.2, 0.2), LIMIT)

    after = judge(agreeing(0.2, 0.2, lie), LIMIT)

    assert before.interval is not None
    assert after.interval is not None
    assert after.is_confirmed
    assert before.interval.low == pytest.approx(after.interval.low)
