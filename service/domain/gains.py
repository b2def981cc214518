# SPDX-License-Identifier: Apache-2.0
"""Mean gain of tuning over jobs: that of a paired test where a job adopted a config, 0 where it kept the default.

| symbol | meaning |
|---|---|
| d | ln(baseline's step time / adopted config's step time) by a job's paired test; 0 where the default was kept |
| v | variance of d, from the test's interval; 0 where the default was kept, which is compared with itself |
| n | jobs |

The mean is exp(sum d / n) - 1. Its interval has the variance sum v / n**2; it is that of these jobs alone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

from sqlalchemy import Connection

from ringtune.service.store import verdict_gains
from ringtune.service.store.key_verdicts import ADOPTED
from ringtune.service.store.verdict_gains import GainRow
from ringtune.shared_service.advice.votes import CI_LEVEL, tested
from ringtune.tuner.logs.records import OLD_CI_LEVEL
from ringtune.tuner.statistics.paired_test import Interval
from ringtune.tuner.statistics.student_t import normal_quantile

NEWEST_VERDICTS = 50
"""Verdicts of a study that its mean gain is over: enough for a mean, few enough for a list of 50 studies."""


@dataclass(frozen=True)
class MeanGain:
    """Gains of jobs, as sums; those of several studies add up.

    Attributes:
        jobs: Jobs with a verdict and a known gain.
        adopted: Jobs among them that adopted a config.
        d: Sum of their d.
        v: Sum of their v.
    """

    jobs: int = 0
    adopted: int = 0
    d: float = 0.0
    v: float = 0.0

    def __add__(self, other: "MeanGain") -> "MeanGain":
        """Return the gains of both."""
        return MeanGain(self.jobs + other.jobs, self.adopted + other.adopted, self.d + other.d, self.v + other.v)

    @property
    def interval(self) -> Interval | None:
        """Return the mean as a speed-up with its interval at level `CI_LEVEL`; None without jobs."""
        if self.jobs == 0:
            return None
        mean, margin = self.d / self.jobs, normal_quantile(0.5 + CI_LEVEL / 2) * math.sqrt(self.v) / self.jobs
        return Interval(*(math.expm1(d) for d in (mean, mean - margin, mean + margin)))


def gain_of(connection: Connection, study_id: str) -> MeanGain:
    """Return the gains of the newest verdicts of a study's jobs."""
    return mean_gain(verdict_gains.newest(connection, study_id, NEWEST_VERDICTS))


def mean_gain(verdicts: Iterable[GainRow]) -> MeanGain:
    """Return the gains of some verdicts; one that adopted without a paired test here is left out."""
    return sum((_gain(row) for row in verdicts), MeanGain())


def _gain(row: GainRow) -> MeanGain:
    if row.state not in {None, ADOPTED}:
        return MeanGain(jobs=1)
    if row.speedup is None or row.ci_low is None or row.ci_high is None:
        return MeanGain()
    if row.state is None and row.ci_low <= 0.0:
        return MeanGain(jobs=1)
    return MeanGain(1, 1, *tested(row.speedup, row.ci_low, row.ci_high, row.ci_level or OLD_CI_LEVEL))
