# SPDX-License-Identifier: Apache-2.0
"""The worth of results: each reporter's stand on a config, from the sums of its jobs; symbols as in `advice.votes`.

Two kinds of evidence, never mixed:

- a *paired test* compares the config with the baseline in interleaved pairs. A reporter's tests of a config are pooled,
  each weighed by 1 / v; they *adopted* it where low > 0, else the reporter *kept* the default.
- a *window* of a search is compared with the baseline windows next to it, the one before and the one after, of the same
  job: a machine that drifts slows both. Between the two the drift may have come at any time, so that a window counts as
  faster only beside the faster of them, and as slower only beside the slower.

Each reporter has one vote on a config; `ringtune.shared_service.advice` counts the votes.

Jobs that are judged together have the same baseline config: speed-ups over different ones are not comparable.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ringtune.service.store.rows import NewReport
from ringtune.service.store.summary_rows import JobSummary
from ringtune.shared_service.advice.votes import CI_LEVEL, Estimate, Stand, StandName, pooled, tested
from ringtune.tuner.logs.records import OLD_CI_LEVEL
from ringtune.tuner.statistics.student_t import normal_quantile

E9, E12 = 1e9, 1e12
SAMPLE_STD = 0.03
"""Standard deviation of ln(step time), one window against another of the same job: of the 4-5 % between single scores
on real logs, the remainder after the median over a window."""
NEIGHBOURS = 2
"""Baseline windows that a window is compared with."""
MAX_JOBS = 64
"""The newest of each token per config that count; more would not change the answer."""


@dataclass(frozen=True)
class Tally:
    """Counts that a result adds to the columns of `job_summaries` with the same names."""

    trials: int = 1
    samples: int = 0
    log_step_e9: int = 0
    adoptions: int = 0
    log_speedup_e9: int = 0
    variance_e12: int = 0


def tally(report: NewReport, *, is_baseline: bool = False) -> Tally:
    """Return the addition of a valid result to its job's sums.

    A paired test is a stronger statement than a window, but both are kept: `stand_of` chooses. The baseline has none.
    """
    window, test = {}, {}
    if report.median_step_ms is not None:
        window = {"samples": 1, "log_step_e9": round(E9 * math.log(report.median_step_ms))}
    if not is_baseline and report.speedup is not None and report.ci_low is not None and report.ci_high is not None:
        d, v = tested(report.speedup, report.ci_low, report.ci_high, report.ci_level or OLD_CI_LEVEL)
        test = {"adoptions": 1, "log_speedup_e9": round(E9 * d), "variance_e12": round(E12 * v)}
    return Tally(**window, **test)


def mean_log_step(sums: JobSummary) -> float | None:
    """Return the mean ln(median step time in ms) of a job's windows, None without any."""
    return sums.log_step_e9 / E9 / sums.samples if sums.samples else None


def stand_of(reporter: str, rows: Sequence[JobSummary], max_speedup: float) -> Stand | None:
    """Return a reporter's word on a config, None where it has no measurement to compare with.

    Args:
        reporter: The reporter's name, from `reporter_of`.
        rows: Its jobs' rows of `job_summaries` for the config; all have the same baseline.
        max_speedup: Paired tests that claim more, or the inverse, are left out.
    """
    limit = math.log1p(max_speedup)
    own_tests = [row for row in rows if row.adoptions and abs(_test(row)[0]) <= limit]
    compared = [row for row in rows if row.compared]
    if own_tests:
        found = _by_tests(own_tests)
    elif compared:
        found = _by_windows(compared)
    else:
        return None
    windows = sum(row.compared for row in compared)
    tests = sum(row.adoptions for row in own_tests)
    return Stand(reporter, rows[0].token_id, len(rows), tests, windows, *found)


def _by_tests(rows: Sequence[JobSummary]) -> tuple[StandName, Estimate, float]:
    """Return the finding of paired tests, and since when."""
    estimate = pooled(map(_test, rows))
    return "adopted" if estimate.low > 0.0 else "kept", estimate, min(row.tested_unix_s or 0.0 for row in rows)


def _by_windows(compared: Sequence[JobSummary]) -> tuple[StandName, Estimate, float]:
    """Return the finding of windows between two baseline windows, and since when."""
    estimate = _between_neighbours(compared)
    name: StandName = "faster" if estimate.low > 0.0 else "slower" if estimate.high < 0.0 else "unclear"
    return name, estimate, min(row.first_unix_s for row in compared)


def _test(row: JobSummary) -> tuple[float, float]:
    """Return d and v of a job's paired tests."""
    count = row.adoptions
    return row.log_speedup_e9 / E9 / count, row.variance_e12 / E12 / count**2


def _between_neighbours(rows: Sequence[JobSummary]) -> Estimate:
    """Return d of windows, the mean over all of them, from beside the faster to beside the slower neighbour."""
    count = sum(row.compared for row in rows)
    low = sum(row.log_gain_low_e9 for row in rows) / E9 / count
    high = sum(row.log_gain_high_e9 for row in rows) / E9 / count
    margin = normal_quantile(0.5 + CI_LEVEL / 2) * SAMPLE_STD * math.sqrt(1.0 / count + 1.0 / NEIGHBOURS)
    return Estimate(0.5 * (low + high), low - margin, high + margin)
