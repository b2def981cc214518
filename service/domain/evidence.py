# SPDX-License-Identifier: Apache-2.0
"""The worth of results: each reporter's estimate of a config's speed-up, its stand, and the verdict over reporters.

| symbol | meaning |
|---|---|
| d | ln(baseline's step time / config's step time); above zero where the config is faster |
| v | variance of d, from the paired test's interval or from the number of windows |
| low, high | d -+ 1.645 sqrt(v): the two-sided 90 % interval, whose lower end is the bound of a one-sided 5 % test |

Two kinds of evidence, never mixed:

- a *paired test* compares the config with the baseline in interleaved pairs. A reporter's tests of a config are pooled,
  each weighed by 1 / v; they *adopted* it where low > 0, else the reporter *kept* the default.
- a *window* of a search is compared with the baseline windows next to it, the one before and the one after, of the same
  job: a machine that drifts slows both. Between the two the drift may have come at any time, so that a window counts as
  faster only beside the faster of them, and as slower only beside the slower.

Each reporter has one vote on a config. A config is *confirmed* when the paired tests of at least two reporters adopted
it, and more than did not. Anything else is a *prior*, of which no gain is promised: a job must test it.

Jobs that are judged together have the same baseline config: speed-ups over different ones are not comparable.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ringtune.service.store.rows import NewReport
from ringtune.service.store.summary_rows import JobSummary, StandName
from ringtune.tuner.logs.records import OLD_CI_LEVEL
from ringtune.tuner.statistics.paired_test import Interval
from ringtune.tuner.statistics.student_t import normal_quantile

E9, E12 = 1e9, 1e12
CI_LEVEL = 0.9
"""Level of the two-sided intervals that the service states; the lower end is the bound of a one-sided 5 % test."""
SAMPLE_STD = 0.03
"""Standard deviation of ln(step time), one window against another of the same job: of the 4-5 % between single scores
on real logs, what is left after the median over a window."""
NEIGHBOURS = 2
"""Baseline windows that a window is compared with."""
MIN_VARIANCE = 1e-8
"""Smallest variance of d that is believed: no test of step times is exact to 0.01 %."""
MIN_REPORTERS = 2
"""Reporters whose paired tests must have adopted a config before it is confirmed."""
MAX_JOBS = 64
"""The newest of each token per config that count; more would not change the answer."""


@dataclass(frozen=True)
class Estimate:
    """A reporter's d, between what its windows say beside the slower and beside the faster neighbour.

    Attributes:
        d: The estimate.
        low: Lower end of its interval.
        high: Upper end.
    """

    d: float
    low: float
    high: float

    @property
    def interval(self) -> Interval:
        """The estimate as a speed-up."""
        return Interval(math.expm1(self.d), math.expm1(self.low), math.expm1(self.high))


@dataclass(frozen=True)
class Stand:
    """One reporter's word on one config.

    Attributes:
        reporter: The reporter's name, from `reporter_of`.
        token_id: The token of its rows; None: without one.
        jobs: Its jobs that count here.
        tests: Its paired tests.
        windows: Its windows that lie between two baseline windows.
        name: `adopted` or `kept` by paired tests; without any `faster`, `slower` or `unclear` by windows.
        estimate: Its speed-up; the paired tests' where there are any.
        since_unix_s: Since when it says so: its first paired test, or its first window.
    """

    reporter: str
    token_id: str | None
    jobs: int
    tests: int
    windows: int
    name: StandName
    estimate: Estimate
    since_unix_s: float


@dataclass(frozen=True)
class Tally:
    """Counts that a result adds to the columns of `job_summaries` with the same names."""

    trials: int = 1
    samples: int = 0
    log_step_e9: int = 0
    adoptions: int = 0
    log_speedup_e9: int = 0
    variance_e12: int = 0


@dataclass(frozen=True)
class Votes:
    """The reporters' stands on one config, counted.

    Attributes:
        adopted: Reporters whose paired tests adopted it.
        opposed: Reporters whose paired tests kept the default, or whose windows show that it is slower.
        leaning: Reporters whose windows show that it is faster, where nobody tested it.
        since_unix_s: When the first of those who speak for it did.
        estimate: The lower median, by lower bound, over those with paired tests, or else over those with windows: one
            reporter moves it no further than to another's. None without any.
    """

    adopted: int
    opposed: int
    leaning: int
    since_unix_s: float
    estimate: Estimate | None

    @property
    def is_supported(self) -> bool:
        """Return whether enough reporters adopted it, and more than were against it."""
        return self.adopted >= MIN_REPORTERS and self.adopted > self.opposed

    @property
    def is_promising(self) -> bool:
        """Return whether it is worth a test: adopted by no fewer than were against it, or faster to more by windows."""
        return 0 < self.adopted >= self.opposed or (not self.adopted and self.leaning > self.opposed)


def tally(report: NewReport, *, is_baseline: bool = False) -> Tally:
    """Return what a valid result adds to its job's sums.

    A paired test is a stronger statement than a window, but both are kept: `stand_of` chooses. The baseline has none.
    """
    window, test = {}, {}
    if report.median_step_ms is not None:
        window = {"samples": 1, "log_step_e9": round(E9 * math.log(report.median_step_ms))}
    if not is_baseline and report.speedup is not None and report.ci_low is not None and report.ci_high is not None:
        width = math.log1p(report.ci_high) - math.log1p(report.ci_low)
        level = report.ci_level or OLD_CI_LEVEL
        test = {
            "adoptions": 1,
            "log_speedup_e9": round(E9 * math.log1p(report.speedup)),
            "variance_e12": round(E12 * (width / (2 * normal_quantile(0.5 + level / 2))) ** 2),
        }
    return Tally(**window, **test)


def mean_log_step(sums: JobSummary) -> float | None:
    """Return the mean ln(median step time in ms) of a job's windows, None without any."""
    return sums.log_step_e9 / E9 / sums.samples if sums.samples else None


def stand_of(reporter: str, rows: Sequence[JobSummary], max_speedup: float) -> Stand | None:
    """Return a reporter's word on a config, None where it has nothing to compare with.

    Args:
        reporter: The reporter's name, from `reporter_of`.
        rows: Its jobs' rows of `job_summaries` for the config; all have the same baseline.
        max_speedup: Paired tests that claim more, or the inverse, are left out.
    """
    limit = math.log1p(max_speedup)
    tested = [row for row in rows if row.adoptions and abs(_test(row)[0]) <= limit]
    compared = [row for row in rows if row.compared]
    if tested:
        found = _by_tests(tested)
    elif compared:
        found = _by_windows(compared)
    else:
        return None
    windows = sum(row.compared for row in compared)
    tests = sum(row.adoptions for row in tested)
    return Stand(reporter, rows[0].token_id, len(rows), tests, windows, *found)


def _by_tests(tested: Sequence[JobSummary]) -> tuple[StandName, Estimate, float]:
    """Return what paired tests say, and since when."""
    estimate = _pooled(map(_test, tested))
    return "adopted" if estimate.low > 0.0 else "kept", estimate, min(row.tested_unix_s or 0.0 for row in tested)


def _by_windows(compared: Sequence[JobSummary]) -> tuple[StandName, Estimate, float]:
    """Return what windows between two baseline windows say, and since when."""
    estimate = _between_neighbours(compared)
    name: StandName = "faster" if estimate.low > 0.0 else "slower" if estimate.high < 0.0 else "unclear"
    return name, estimate, min(row.first_unix_s for row in compared)


def votes_of(stands: Sequence[Stand]) -> Votes:
    """Return the stands on one config, counted: each reporter once."""
    names = [stand.name for stand in stands]
    adopted, is_tested = names.count("adopted"), any(stand.tests for stand in stands)
    speaking = [stand.since_unix_s for stand in stands if stand.name == ("adopted" if adopted else "faster")]
    return Votes(
        adopted=adopted,
        opposed=names.count("kept") + names.count("slower"),
        leaning=0 if is_tested else names.count("faster"),
        since_unix_s=min(speaking, default=0.0),
        estimate=_lower_median([stand.estimate for stand in stands if bool(stand.tests) == is_tested]),
    )


def _lower_median(estimates: Sequence[Estimate]) -> Estimate | None:
    """Return the lower median by lower bound, None of none."""
    ordered = sorted(estimates, key=lambda item: (item.low, item.d))
    return ordered[(len(ordered) - 1) // 2] if ordered else None


def _test(row: JobSummary) -> tuple[float, float]:
    """Return d and v of a job's paired tests."""
    count = row.adoptions
    return row.log_speedup_e9 / E9 / count, max(row.variance_e12 / E12 / count**2, MIN_VARIANCE)


def _pooled(tests: Iterable[tuple[float, float]]) -> Estimate:
    """Return the mean of paired tests, each weighed by its precision, with its interval."""
    weighed = [(d, 1.0 / v) for d, v in tests]
    precision = sum(weight for _, weight in weighed)
    d = sum(d * weight for d, weight in weighed) / precision
    margin = normal_quantile(0.5 + CI_LEVEL / 2) / math.sqrt(precision)
    return Estimate(d, d - margin, d + margin)


def _between_neighbours(rows: Sequence[JobSummary]) -> Estimate:
    """Return d of windows, the mean over all of them, from beside the faster to beside the slower neighbour."""
    count = sum(row.compared for row in rows)
    low = sum(row.log_gain_low_e9 for row in rows) / E9 / count
    high = sum(row.log_gain_high_e9 for row in rows) / E9 / count
    margin = normal_quantile(0.5 + CI_LEVEL / 2) * SAMPLE_STD * math.sqrt(1.0 / count + 1.0 / NEIGHBOURS)
    return Estimate(0.5 * (low + high), low - margin, high + margin)
