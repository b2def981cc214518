# SPDX-License-Identifier: Apache-2.0
"""Refusal and quarantine of results, and that honest ones meet neither."""

import math
import statistics
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ringtune.service.domain.plausibility import check, suspicion
from ringtune.service.domain.values import PairedTestResult
from ringtune.service.errors import ImplausibleResult
from ringtune.tuner import StepTimes, VoidReason
from tests.unit.service.domain.reported import result

HONEST = result("job-1")
NAN, INFINITY = math.nan, math.inf
IMPOSSIBLE: tuple[dict[str, Any], ...] = (
    {"score_bytes_per_s": NAN},
    {"score_bytes_per_s": INFINITY},
    {"score_bytes_per_s": 0.0},
    {"score_bytes_per_s": None},
    {"step_ms": None},
    {"step_ms": StepTimes(NAN, 1.0, 1.0)},
    {"step_ms": StepTimes(-1.0, 0.0, 1.0)},
    {"step_ms": StepTimes(1.0, -0.1, 1.0)},
    {"step_ms": StepTimes(1.0, 1.1, 1.0)},
    {"step_ms": StepTimes(1.0, 0.1, 0.4)},
    {"step_ms": StepTimes(1.0, INFINITY, 1.0)},
    {"steps": 0},
    {"steps": -1},
    {"steps": 2**63},
    {"valid": False},
    {"reason": VoidReason.PAUSE},
    {"adoption": PairedTestResult(NAN, 0.0, 0.1, 5)},
    {"adoption": PairedTestResult(0.1, 0.2, 0.3, 5)},
    {"adoption": PairedTestResult(0.1, -1.0, 0.3, 5)},
    {"adoption": PairedTestResult(0.1, 0.0, 0.3, 1)},
)
UNLIKELY: tuple[dict[str, Any], ...] = (
    {"score_bytes_per_s": 1e15},
    {"step_ms": StepTimes(4e6, 0.0, 4e6)},
    {"step_ms": StepTimes(1e-4, 0.0, 1e-4)},
    {"adoption": PairedTestResult(4.1, 4.0, 4.2, 5)},
    {"adoption": PairedTestResult(-0.9, -0.91, -0.89, 5)},
    {"adoption": PairedTestResult(0.1, -0.9999999999999999, 0.2, 5)},
    {"adoption": PairedTestResult(0.1, 0.0, 1e300, 5)},
)


@pytest.mark.parametrize("wrong", IMPOSSIBLE, ids=str)
def test_an_impossible_result_is_refused(wrong: dict[str, Any]) -> None:
    """Numbers that are not finite and positive, or that contradict each other."""
    check(HONEST)

    with pytest.raises(ImplausibleResult):
        check(replace(HONEST, **wrong))


@pytest.mark.parametrize("odd", UNLIKELY, ids=str)
def test_an_implausible_result_is_quarantined_with_the_reason(odd: dict[str, Any]) -> None:
    """Beyond the limits: kept, and not believed."""
    doubted = replace(HONEST, **odd)
    check(doubted)

    assert suspicion(doubted, max_speedup=4.0)
    assert suspicion(HONEST, max_speedup=4.0) is None


def test_a_void_window_needs_no_numbers() -> None:
    """A void window is kept for the review, with its reason in place of numbers."""
    void = replace(HONEST, valid=False, reason=VoidReason.PAUSE, score_bytes_per_s=None, step_ms=None, steps=0)

    check(void)

    assert suspicion(void, max_speedup=4.0) is None


@given(st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=40))
def test_the_summary_of_any_steps_is_possible(step_ms: list[float]) -> None:
    """Median, deviation and mean of any positive steps are accepted."""
    times = StepTimes.of(step_ms)
    assert times.median == statistics.median(step_ms)

    check(replace(HONEST, step_ms=times, steps=len(step_ms)))
