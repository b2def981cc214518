# SPDX-License-Identifier: Apache-2.0
"""Plausibility of results: impossible ones are refused, unlikely ones are quarantined."""

import math

from ringtune.service.errors import ImplausibleResult
from ringtune.tuner import StepTimes

from .values import PairedTestResult, ReportedResult

MAX_STEP_MS = 3_600_000.0
"""An hour."""
MIN_STEP_MS = 1e-3
MAX_SCORE_BYTES_PER_S = 1e14
MAX_STEPS = 10**9
ROUNDING = 1e-6
MIN_CI_LEVEL = 0.5
"""Lowest level of an interval that says anything."""


def check(result: ReportedResult) -> None:
    """Refuse results that cannot be true.

    Raises:
        ImplausibleResult: If a valid result has a number that is not finite and positive, or numbers that contradict
            each other.
    """
    if not 0 <= result.steps <= MAX_STEPS:
        raise ImplausibleResult(f"steps={result.steps}; allowed: 0 to {MAX_STEPS}")
    if result.valid != (result.reason is None):
        raise ImplausibleResult("a valid result has no reason, and an invalid one has one")
    if result.valid and (result.step_ms is None or result.score_bytes_per_s is None or result.steps == 0):
        raise ImplausibleResult("a valid result has a score, step times and at least one step")
    if result.step_ms is not None:
        _check_times(result.step_ms)
    if result.score_bytes_per_s is not None:
        _check_score(result.score_bytes_per_s)
    if result.adoption is not None:
        _check_adoption(result.adoption)


def suspicion(result: ReportedResult, *, max_speedup: float) -> str | None:
    """Return why a result that could be true is not believed, None where it is.

    Args:
        result: Result that `check` let through.
        max_speedup: Claims beyond it are not believed.
    """
    times, score = result.step_ms, result.score_bytes_per_s
    if times is not None and not MIN_STEP_MS <= times.median <= MAX_STEP_MS:
        return f"a median step of {times.median:g} ms is outside of {MIN_STEP_MS:g} to {MAX_STEP_MS:g} ms"
    if score is not None and score > MAX_SCORE_BYTES_PER_S:
        return f"a score of {score:g} bytes/s is above {MAX_SCORE_BYTES_PER_S:g}"
    for figure in _figures(result.adoption) if result.adoption is not None else ():
        if not is_possible(math.log1p(figure), max_speedup):
            return f"a speed-up, or a bound of it, of {figure:+.3g} is beyond the limit of {max_speedup:+.0%}"
    return None


def is_possible(log_speedup: float, max_speedup: float) -> bool:
    """Tell whether a speed-up, or the inverse slow-down, is within the limit."""
    return abs(log_speedup) <= math.log1p(max_speedup)


def _check_score(score: float) -> None:
    if not (math.isfinite(score) and score > 0):
        raise ImplausibleResult(f"score_bytes_per_s={score!r} is not finite and above zero")


def _check_times(times: StepTimes) -> None:
    """Check relations that hold for the median, its deviation and the mean of any positive numbers."""
    if not times.is_usable or times.mad < 0:
        raise ImplausibleResult(f"step times {times} are not finite and above zero")
    if times.mad > times.median * (1 + ROUNDING):
        raise ImplausibleResult(
            f"no positive step times have a median of {times.median} and a deviation of {times.mad}"
        )
    if times.mean < 0.5 * times.median * (1 - ROUNDING):
        raise ImplausibleResult(f"no positive step times have a median of {times.median} and a mean of {times.mean}")


def _figures(adoption: PairedTestResult) -> tuple[float, float, float]:
    return adoption.ci_low, adoption.speedup, adoption.ci_high


def _check_adoption(adoption: PairedTestResult) -> None:
    figures = _figures(adoption)
    if not all(math.isfinite(figure) and figure > -1.0 for figure in figures):
        raise ImplausibleResult(f"a speed-up and its bounds are finite and above -1, not {figures}")
    if not adoption.ci_low <= adoption.speedup <= adoption.ci_high or adoption.pairs < 2:
        raise ImplausibleResult(f"a speed-up lies between its bounds and has two pairs, not {adoption}")
    if not MIN_CI_LEVEL <= adoption.ci_level < 1.0:
        raise ImplausibleResult(f"ci_level={adoption.ci_level}; allowed: {MIN_CI_LEVEL:g} up to, not including, 1")
