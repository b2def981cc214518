# SPDX-License-Identifier: Apache-2.0
"""Votes: each reporter's stand on a config, and the stands on one config counted.

| symbol | meaning |
|---|---|
| d | ln(baseline's step time / config's step time); above zero where the config is faster |
| v | variance of d, from the paired test's interval |
| low, high | d -+ 1.645 sqrt(v): the two-sided 90 % interval, whose lower end is the bound of a one-sided 5 % test |

Paired tests and windows are never mixed: where a config has a paired test, windows neither support nor oppose it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ringtune.tuner.statistics.paired_test import Interval
from ringtune.tuner.statistics.student_t import normal_quantile

StandName: TypeAlias = Literal["adopted", "kept", "faster", "slower", "unclear"]

CI_LEVEL = 0.9
"""Level of the two-sided intervals that are stated; the lower end is the bound of a one-sided 5 % test."""
MIN_VARIANCE = 1e-8
"""Smallest variance of d that is believed: no test of step times is exact to 0.01 %."""


@dataclass(frozen=True)
class Estimate:
    """A reporter's d, between its windows' values beside the slower and beside the faster neighbour.

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
        reporter: Name of the reporter, the unit in which independent evidence is counted.
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
class Votes:
    """The reporters' stands on one config, counted.

    Attributes:
        adopted: Reporters whose paired tests adopted it.
        opposed: Reporters whose paired tests kept the default; for an untested config, those with slower windows.
        leaning: Reporters whose windows show that it is faster; only for an untested config.
        since_unix_s: Time of the first vote for it.
        estimate: The lower median, by lower bound, over those with paired tests, or else over those with windows: one
            reporter moves it no further than to another's. None without any.
    """

    adopted: int
    opposed: int
    leaning: int
    since_unix_s: float
    estimate: Estimate | None


def tested(speedup: float, ci_low: float, ci_high: float, level: float) -> tuple[float, float]:
    """Return d and v of a paired test, from its speed-up and its two-sided interval at a level."""
    width = math.log1p(ci_high) - math.log1p(ci_low)
    return math.log1p(speedup), (width / (2 * normal_quantile(0.5 + level / 2))) ** 2


def pooled(tests: Iterable[tuple[float, float]]) -> Estimate:
    """Return the mean of paired tests (d, v), each weighed by its precision, with its interval."""
    weighed = [(d, 1.0 / max(v, MIN_VARIANCE)) for d, v in tests]
    precision = sum(weight for _, weight in weighed)
    d = sum(d * weight for d, weight in weighed) / precision
    margin = normal_quantile(0.5 + CI_LEVEL / 2) / math.sqrt(precision)
    return Estimate(d, d - margin, d + margin)


def votes_of(stands: Sequence[Stand]) -> Votes:
    """Return the stands on one config, counted: each reporter once."""
    names = [stand.name for stand in stands]
    adopted, is_tested = names.count("adopted"), any(stand.tests for stand in stands)
    speaking = [stand.since_unix_s for stand in stands if stand.name == ("adopted" if adopted else "faster")]
    return Votes(
        adopted=adopted,
        opposed=names.count("kept" if is_tested else "slower"),
        leaning=0 if is_tested else names.count("faster"),
        since_unix_s=min(speaking, default=0.0),
        estimate=_lower_median([stand.estimate for stand in stands if bool(stand.tests) == is_tested]),
    )


def _lower_median(estimates: Sequence[Estimate]) -> Estimate | None:
    """Return the lower median by lower bound, None of none."""
    ordered = sorted(estimates, key=lambda item: (item.low, item.d))
    return ordered[(len(ordered) - 1) // 2] if ordered else None
