# SPDX-License-Identifier: Apache-2.0
"""The mean gain of jobs, and its interval."""

import math
from collections.abc import Sequence

import pytest

from ringtune.service.domain.gains import MeanGain, mean_gain
from ringtune.service.store.verdict_gains import GainRow


def row(state: str | None, speedup: float | None = None, std: float = 0.01, tests: int = 1) -> GainRow:
    """Return a job's verdict, with so many equal paired tests of one config."""
    if speedup is None:
        return GainRow(state=state, adoptions=None, log_speedup_e9=None, variance_e12=None)
    d, v = tests * math.log1p(speedup), tests * std**2
    return GainRow(state=state, adoptions=tests, log_speedup_e9=round(1e9 * d), variance_e12=round(1e12 * v))


KEPT = row("keeping_default")


@pytest.mark.parametrize(
    ("rows", "jobs", "adopted", "speedup", "half_width"),
    [
        ([KEPT], 1, 0, 0.0, 0.0),
        ([row("adopted", 0.1)], 1, 1, 0.1, 1.645 * 0.01),
        ([row("adopted", 0.1), KEPT], 2, 1, math.sqrt(1.1) - 1, 1.645 * 0.005),
        ([row("adopted", 0.1, tests=4)], 1, 1, 0.1, 1.645 * 0.005),
        ([row("adopted", 0.1)] * 4, 4, 4, 0.1, 1.645 * 0.005),
        ([row("keeping_default", 0.02), row("adopted", 0.1)], 2, 1, math.sqrt(1.1) - 1, 1.645 * 0.005),
        ([row("adopted"), row("adopted", 0.1)], 1, 1, 0.1, 1.645 * 0.01),
        ([row(None, 0.1), row(None, 0.01), row(None, -0.1)], 3, 1, 1.1 ** (1 / 3) - 1, 1.645 * 0.01 / 3),
    ],
)
def test_a_mean_is_over_all_verdicts(
    rows: Sequence[GainRow], jobs: int, adopted: int, speedup: float, half_width: float
) -> None:
    """A kept default is 0 and exact, an adopted config has its test's gain; an adoption without a test is left out."""
    found = mean_gain(rows)

    mean = found.interval
    assert mean is not None
    assert (jobs, adopted) == (found.jobs, found.adopted)
    assert (speedup, half_width) == pytest.approx(
        (mean.speedup, (math.log1p(mean.high) - math.log1p(mean.low)) / 2), abs=1e-4
    )
    assert mean.low <= mean.speedup <= mean.high


def test_without_a_verdict_there_is_no_mean() -> None:
    """Nothing is 0 that nobody measured."""
    assert (MeanGain(), None) == (mean_gain([row("adopted")]), MeanGain().interval)


def test_means_of_several_studies_add_up() -> None:
    """The mean over all jobs is that of one study with all of them."""
    first, second = [row("adopted", 0.1), KEPT], [row("adopted", 0.3), KEPT, KEPT]

    apart, together = mean_gain(first) + mean_gain(second), mean_gain([*first, *second])

    assert (together.jobs, together.adopted) == (apart.jobs, apart.adopted)
    assert (together.d, together.v) == pytest.approx((apart.d, apart.v))
