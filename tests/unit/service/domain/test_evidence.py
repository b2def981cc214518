# SPDX-License-Identifier: Apache-2.0
"""The worth of results: one vote per reporter, paired tests before windows, robust against any single reporter."""

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.service.domain.evidence import E9, E12, stand_of, tally
from ringtune.service.store.summary_rows import JobSummary
from ringtune.shared_service.advice.contest import MIN_REPORTERS
from ringtune.shared_service.advice.votes import Estimate, Stand, StandName, votes_of
from tests.unit.service.domain.rows import report_row

LIMIT = 4.0
speedups = st.floats(-0.5, 2.0)


def with_test(speedup: float, half_width: float = 0.01, *, since: float = 0.0) -> JobSummary:
    """Return a job's sums with one paired test."""
    bounds = {"speedup": speedup, "ci_low": speedup - half_width, "ci_high": speedup + half_width, "ci_level": 0.9}
    return replace(looked(), **vars(tally(report_row(**bounds))), tested_unix_s=since)


def looked(low: float = 0.0, high: float = 0.0, compared: int = 0) -> JobSummary:
    """Return a job's sums with windows beside the faster and the slower of their neighbours, as speed-ups."""
    return JobSummary(
        study_id="study",
        job_id="job",
        config_digest="config",
        compared=compared,
        first_unix_s=5.0,
        log_gain_low_e9=round(E9 * compared * math.log1p(low)),
        log_gain_high_e9=round(E9 * compared * math.log1p(high)),
    )


def stand(name: StandName, low: float, *, since: float = 0.0) -> Stand:
    """Return a reporter's stand with this lower bound of ln(speed-up)."""
    tests, windows = (1, 0) if name in {"adopted", "kept"} else (0, 3)
    return Stand("token:a", "a", 1, tests, windows, name, Estimate(low + 0.05, low, low + 0.1), since)


def test_a_paired_test_whose_interval_lies_above_zero_adopts() -> None:
    """The reported interval is stated again, at its own level."""
    found = stand_of("token:a", [with_test(0.1, 0.02)], LIMIT)

    assert found is not None
    assert ("adopted", 1) == (found.name, found.tests)
    interval = found.estimate.interval
    assert (0.1, 0.08, 0.12) == pytest.approx((interval.speedup, interval.low, interval.high), abs=5e-4)
    kept = stand_of("token:a", [with_test(0.1, 0.11)], LIMIT)
    assert kept is not None
    assert "kept" == kept.name


@pytest.mark.parametrize(("level", "ratio"), [(0.9, 1.0), (0.95, 1.645 / 1.96), (None, 1.645 / 1.96)])
def test_an_interval_of_another_level_is_restated(level: float | None, ratio: float) -> None:
    """A 95 % interval is wider than the 90 % one of the same test; logs that name no level have 95 %."""
    sums = replace(with_test(0.1), **vars(tally(report_row(speedup=0.1, ci_low=0.05, ci_high=0.155, ci_level=level))))

    found = stand_of("token:a", [sums], LIMIT)

    assert found is not None
    half_width = (math.log(1.155) - math.log(1.05)) / 2 * ratio
    assert half_width == pytest.approx(found.estimate.d - found.estimate.low, rel=1e-3)


def test_a_reporters_jobs_are_pooled_into_one_word() -> None:
    """A test that shows a loss outweighs one that shows as much gain less precisely; the jobs are still one voice."""
    rows = [with_test(0.1, 0.05), with_test(-0.1, 0.01), with_test(-0.1, 0.01)]

    found = stand_of("token:a", rows, LIMIT)

    assert found is not None
    assert ("kept", 3, 3) == (found.name, found.jobs, found.tests)


def test_windows_count_only_without_a_test_and_beyond_their_noise() -> None:
    """Faster beside the faster neighbour, slower beside the slower one, else unclear."""
    names = [
        found.name
        for low, high in ((0.2, 0.2), (0.0, 3.0), (-0.7, 0.0), (-0.3, -0.2), (0.02, 0.02))
        if (found := stand_of("token:a", [looked(low, high, 3)], LIMIT)) is not None
    ]

    assert ["faster", "unclear", "unclear", "slower", "unclear"] == names
    assert stand_of("token:a", [looked()], LIMIT) is None
    both = stand_of("token:a", [looked(0.5, 0.5, 3), with_test(0.0)], LIMIT)
    assert both is not None
    assert "kept" == both.name


def test_a_claim_beyond_the_limit_is_left_out() -> None:
    """A claim beyond the limit counts as no test."""
    assert stand_of("token:a", [with_test(LIMIT + 0.1)], LIMIT) is None


def test_windows_do_not_count_for_a_tested_config() -> None:
    """Windows count where it was not tested; a paired test is opposed by paired tests alone."""
    tested = votes_of([stand("adopted", 0.5), stand("kept", -0.1), stand("slower", -0.2), stand("faster", 0.3)])
    untested = votes_of([stand("faster", 0.3), stand("slower", -0.2), stand("slower", -0.3)])

    assert (1, 1, 0) == (tested.adopted, tested.opposed, tested.leaning)
    assert (0, 2, 1) == (untested.adopted, untested.opposed, untested.leaning)


def test_it_is_spoken_for_since_the_first_that_adopted_it() -> None:
    """Not since the first that looked."""
    votes = votes_of(
        [stand("unclear", 0.0, since=1.0), stand("adopted", 0.1, since=7.0), stand("adopted", 0.1, since=3.0)]
    )

    assert 3.0 == votes.since_unix_s


@given(st.lists(speedups, min_size=2, max_size=9), speedups)
def test_one_more_reporter_moves_the_estimate_no_further_than_the_others_reach(others: list[float], lie: float) -> None:
    """The estimate stays between the tests of the others, whatever one reporter adds."""
    rows = [with_test(speedup) for speedup in (*others, lie)]
    stands = [found for number, item in enumerate(rows) if (found := stand_of(f"token:{number}", [item], LIMIT))]

    estimate = votes_of(stands).estimate

    assert estimate is not None
    assert math.log1p(min(others)) - 1e-6 <= estimate.d <= math.log1p(max(others)) + 1e-6


@given(st.lists(speedups, min_size=1, max_size=9))
def test_a_confirmed_gain_lies_above_zero(claims: list[float]) -> None:
    """The interval that is stated beside "confirmed" never contains zero."""
    rows = [with_test(claim) for claim in claims]
    stands = [found for item in rows if (found := stand_of("token:a", [item], LIMIT))]
    votes = votes_of(stands)

    is_supported = votes.adopted >= MIN_REPORTERS and votes.adopted > votes.opposed
    assert not is_supported or (votes.estimate is not None and votes.estimate.low > 0.0)


def test_a_test_without_an_error_is_not_believed_to_have_none() -> None:
    """Bounds that meet give the smallest variance, not a division by zero."""
    exact = tally(report_row(speedup=0.1, ci_low=0.1, ci_high=0.1, ci_level=0.9))

    found = stand_of("token:a", [replace(with_test(0.1), **vars(exact)), with_test(0.2)], LIMIT)

    assert 0 == exact.variance_e12 / E12
    assert found is not None
    assert 0.1 == pytest.approx(found.estimate.interval.speedup, abs=1e-3)
