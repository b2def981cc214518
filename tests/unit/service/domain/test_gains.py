# SPDX-License-Identifier: Apache-2.0
"""The mean gain of jobs, and its interval."""

import math
from collections.abc import Sequence

import pytest

from ringtune.service.domain.gains import MeanGain, mean_gain
from ringtune.service.store.verdict_gains import GainRow
from ringtune.tuner.logs.records import OLD_CI_LEVEL
from ringtune.tuner.statistics.student_t import normal_quantile


def row(state: str | None, speedup: float | None = None, std: float = 0.01, level: float | None = 0.9) -> GainRow:
    """Return a job's verdict, with a paired test that has a standard deviation of ln(speed-up)."""
    if speedup is None:
        return GainRow(state=state, speedup=None, ci_low=None, ci_high=None, ci_level=None)
    margin = normal_quantile(0.5 + (level or OLD_CI_LEVEL) / 2) * std
    low, high = (math.expm1(math.log1p(speedup) + side) for side in (-margin, margin))
    return GainRow(state=state, speedup=speedup, ci_low=low, ci_high=high, ci_level=level)


KEPT = row("keeping_default")


@pytest.mark.parametrize(
    ("rows", "jobs", "adopted", "speedup", "std"),
    [
        ([KEPT], 1, 0, 0.0, 0.0),
        ([row("adopted", 0.1)], 1, 1, 0.1, 0.01),
        ([row("adopted", 0.1, level=None)], 1, 1, 0.1, 0.01),
        ([row("adopted", 0.1), KEPT], 2, 1, math.sqrt(1.1) - 1, 0.005),
        ([row("adopted", 0.1)] * 4, 4, 4, 0.1, 0.005),
        ([row("keeping_default", 0.02), row("adopted", 0.1)], 2, 1, math.sqrt(1.1) - 1, 0.005),
        ([row("adopted"), row("adopted", 0.1)], 1, 1, 0.1, 0.01),
        ([row(None, 0.1), row(None, 0.01), row(None, -0.1)], 3, 1, 1.1 ** (1 / 3) - 1, 0.01 / 3),
    ],
)
def test_a_mean_is_over_all_verdicts(
    rows: Sequence[GainRow], jobs: int, adopted: int, speedup: float, std: float
) -> None:
    """A kept default is 0 and exact, an adopted config has its test's gain; an adoption without a test is left out."""
    found = mean_gain(rows)

    mean = found.interval
    assert mean is not None
    assert (jobs, adopted) == (found.jobs, found.adopted)
    half_width = (math.log1p(mean.high) - math.log1p(mean.low)) / 2
    assert (speedup, 1.6449 * std) == pytest.approx((mean.speedup, half_width), abs=1e-6)


def test_without_a_verdict_there_is_no_mean() -> None:
    """A gain that was not measured is not 0."""
    assert (MeanGain(), None) == (mean_gain([row("adopted")]), MeanGain().interval)


def test_means_of_several_studies_add_up() -> None:
    """The mean over all jobs is that of one study with all of them."""
    first, second = [row("adopted", 0.1), KEPT], [row("adopted", 0.3), KEPT, KEPT]

    apart, together = mean_gain(first) + mean_gain(second), mean_gain([*first, *second])

    assert (together.jobs, together.adopted) == (apart.jobs, apart.adopted)
    assert (together.d, together.v) == pytest.approx((apart.d, apart.v))
