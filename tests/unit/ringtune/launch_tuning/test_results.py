# SPDX-License-Identifier: Apache-2.0
"""Results of launches against those of the baseline."""

import math

import pytest

from ringtune.launch_tuning.results import ResultCheck, results_in


def check_with(*reference: float, tolerance: float = 1e-3) -> ResultCheck:
    """Return a check whose baseline printed `reference`."""
    check = ResultCheck(tolerance)
    check.adopt(reference)
    return check


def test_results_are_found_in_lines() -> None:
    """A word that is no number is a result too, and equal to no number."""
    assert [1.5, -2.0] == results_in("ringtune: result=1.5, ringtune: result=-2e0")
    assert [] == results_in("ringtune: step_ms=1.5")
    assert math.isnan(results_in("ringtune: result=oops")[0])


@pytest.mark.parametrize("results", [(1.0, 2.0), (1.0005, 1.999), (1.0, 2.0019)])
def test_results_within_the_tolerance_are_those_of_the_baseline(results: tuple[float, ...]) -> None:
    """Another order of additions changes the last bits."""
    assert "" == check_with(1.0, 2.0).problem(results, is_whole=True)


@pytest.mark.parametrize("wrong", [2.01, -2.0, math.nan, math.inf, 0.0])
def test_a_wrong_result_is_named_with_the_right_one(wrong: float) -> None:
    """The wrong result is named by its place."""
    problem = check_with(1.0, 2.0).problem((1.0, wrong), is_whole=True)

    assert f"gave wrong results: result 2 is {wrong:.9g}, with nothing set it is 2" == problem


def test_results_that_are_missing_or_too_many_are_wrong_for_a_whole_launch_alone() -> None:
    """A launch that was cut has the first ones, which are compared."""
    check = check_with(1.0, 2.0)

    assert "printed 1 results, with nothing set there are 2" == check.problem((1.0,), is_whole=True)
    assert "printed 3 results, with nothing set there are 2" == check.problem((1.0, 2.0, 3.0), is_whole=True)
    assert "" == check.problem((1.0,), is_whole=False)
    assert "wrong" in check.problem((3.0,), is_whole=False)


def test_nothing_is_compared_without_a_reference() -> None:
    """A command that prints no result is only timed; NaN is a result that can be repeated."""
    check = ResultCheck(1e-3)

    assert (False, "") == (check.has_reference, check.problem((), is_whole=True))
    assert "" == check_with(math.nan).problem((math.nan,), is_whole=True)


def test_the_first_launch_of_the_baseline_is_the_reference() -> None:
    """Later ones are compared with it."""
    check = check_with(1.0)
    check.adopt((5.0,))

    assert "" == check.problem((1.0,), is_whole=True)
    assert check.has_reference
