# SPDX-License-Identifier: Apache-2.0
"""Results of launches against those of the baseline."""

import math

import pytest

from ringtune.errors import ConfigError
from ringtune.tuning.command.results import Comparison, ResultCheck, ResultPattern


def check_with(*reference: float, tolerance: float = 1e-3) -> ResultCheck:
    """Return a check whose baseline printed `reference`."""
    check = ResultCheck(tolerance)
    assert "" == check.baseline_problem(reference, is_whole=True)
    return check


def test_results_are_found_in_lines() -> None:
    """A word that is no number is a result too, and equal to no number."""
    pattern = ResultPattern.of(None)

    assert [1.5, -2.0] == pattern.results_in("ringtune: result=1.5, ringtune: result=-2e0")
    assert [] == pattern.results_in("ringtune: step_ms=1.5")
    assert math.isnan(pattern.results_in("ringtune: result=oops")[0])


def test_results_are_found_by_a_pattern_of_the_users() -> None:
    """Several numbers of a line come in their order; a pattern without one group is refused."""
    assert [1.25, 1.5] == ResultPattern.of(r"loss (\S+)").results_in("loss 1.25 then loss 1.5")
    assert math.isnan(ResultPattern.of("loss(x)?").results_in("loss")[0])
    with pytest.raises(ConfigError, match="--result-regex 'loss' has 0 groups; put one group"):
        ResultPattern.of("loss")


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
    """A command that prints no result is only timed."""
    check = ResultCheck(1e-3)

    assert "" == check.problem((), is_whole=True)
    assert Comparison(0, 1e-3, 0.0, 0) == check.comparison


def test_no_number_is_a_difference() -> None:
    """The baseline itself may not give one: no result could be compared with it."""
    check = ResultCheck(1e-3)

    assert "gives a result that is no number: result 2 is nan" == check.baseline_problem((1.0, math.nan), is_whole=True)
    assert "gave wrong results: result 1 is 1" in check_with(math.inf).problem((1.0,), is_whole=True)
    assert "" == check_with(math.inf).problem((math.inf,), is_whole=True)


def test_the_first_launch_of_the_baseline_is_the_reference() -> None:
    """Later ones are compared with it, and their largest difference is the baseline's own spread."""
    check = check_with(1.0, 4.0)

    assert "" == check.baseline_problem((1.0005, 4.0), is_whole=True)
    assert "" == check.baseline_problem((1.0, 4.0), is_whole=True)

    assert "" == check.problem((1.0, 4.0), is_whole=True)
    assert (2, 2) == (check.comparison.count, check.comparison.repeats)
    assert 0.0005 == pytest.approx(check.comparison.spread, rel=0.01)


def test_a_baseline_that_does_not_repeat_itself_is_said_with_its_spread() -> None:
    """The message has the result, both values, the spread and the tolerance."""
    check = check_with(1.0, 4.0)

    problem = check.baseline_problem((1.0, 4.2), is_whole=True)

    assert "does not repeat its own results: result 2 was 4 and is 4.2, a spread of 0.048 over 2 launches" in problem
    assert problem.endswith("the tolerance is 0.001")
