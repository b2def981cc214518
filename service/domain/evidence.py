# SPDX-License-Identifier: Apache-2.0
"""What results are worth: per job one estimate of a config's speed-up, and over jobs a robust mean with an interval.

| symbol | meaning |
|---|---|
| d | ln(baseline's step time / config's step time), of one job; above zero where the config is faster |
| v | variance of d, from the paired test's interval or from the number of windows |
| n | jobs with a d |
| m | the lower median of the d: one job moves it no further than to another job's d |
| s^2 | variance of d between jobs: their scatter about m, by the median absolute deviation, and what is usual |

Jobs that are judged together have the same baseline config: speed-ups over different ones are not comparable.

The bounds are exp(m -+ t s / sqrt(k)) - 1 with Student's t. With n > 2, k = n - 1: one job may lie, and so it does
not make the interval narrower. A config is *confirmed* when at least two jobs measured it and the lower bound is above
zero; it is *promising* when m is above zero. A promising one that is not confirmed is a prior: a job must test it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median, median_low

from ringtune.service.store.rows import Row
from ringtune.tuner.paired_test import Interval
from ringtune.tuner.sample import MAD_TO_STD
from ringtune.tuner.student_t import student_t_quantile

E9, E12 = 1e9, 1e12
SAMPLE_STD = 0.03
"""Of ln(step time), one window against another of the same job: of the 4-5 % between single scores on real logs, what
is left after the median over a window."""
BETWEEN_JOBS_STD = 0.02
"""Of d, between jobs that measured without error."""
USUAL_WEIGHT = 6
"""What is usual counts as much as so many jobs."""
CONFIDENCE = 0.95
NORMAL_QUANTILE = 1.96
MAX_JOBS = 64
"""The newest per config that count; more would not change the answer."""
COLUMNS = ("trials", "samples", "log_step_e9", "adoptions", "log_speedup_e9", "variance_e12")


@dataclass(frozen=True)
class Verdict:
    """What all jobs together say of a config; the interval is None without any estimate."""

    interval: Interval | None
    is_confirmed: bool
    is_promising: bool


def tally(report: Row) -> dict[str, int]:
    """Return what a valid ledger row adds to its job's sums.

    A paired test is a stronger statement than a window, but both are kept: `job_estimate` chooses.
    """
    sums = dict.fromkeys(COLUMNS, 0)
    sums["trials"] = 1
    if report["median_step_ms"] is not None:
        sums["samples"] = 1
        sums["log_step_e9"] = round(E9 * math.log(report["median_step_ms"]))
    if report["speedup"] is not None:
        width = math.log1p(report["ci_high"]) - math.log1p(report["ci_low"])
        sums["adoptions"] = 1
        sums["log_speedup_e9"] = round(E9 * math.log1p(report["speedup"]))
        sums["variance_e12"] = round(E12 * (width / (2 * NORMAL_QUANTILE)) ** 2)
    return sums


def mean_log_step(sums: Row) -> float | None:
    """Return the mean ln(median step time in ms) of a job's windows, None without any."""
    return sums["log_step_e9"] / E9 / sums["samples"] if sums["samples"] else None


def job_estimate(config: Row, baseline: Row | None) -> tuple[float, float] | None:
    """Return d and v of one job, None where it has nothing to compare with.

    Args:
        config: The job's sums for the config.
        baseline: The job's windows under its own baseline. Without them a paired test says nothing either: what it
            was paired with is not known.
    """
    if baseline is None:
        return None
    if config["adoptions"]:
        count = config["adoptions"]
        return config["log_speedup_e9"] / E9 / count, config["variance_e12"] / E12 / count**2
    measured, expected = mean_log_step(config), mean_log_step(baseline)
    if measured is None or expected is None:
        return None
    variance = SAMPLE_STD**2 * (1.0 / config["samples"] + 1.0 / baseline["samples"])
    return expected - measured, variance


def judge(estimates: Sequence[tuple[float, float]], max_speedup: float) -> Verdict:
    """Return the verdict over jobs.

    Args:
        estimates: d and v of each job.
        max_speedup: Jobs that claim more, or the inverse, are left out.
    """
    limit = math.log1p(max_speedup)
    used = [(d, v) for d, v in estimates if abs(d) <= limit]
    if not used:
        return Verdict(None, is_confirmed=False, is_promising=False)
    centre = median_low(d for d, _ in used)
    scatter = MAD_TO_STD * median(abs(d - centre) for d, _ in used)
    jobs = max(len(used) - 1, min(len(used), 2))
    usual = BETWEEN_JOBS_STD**2 + median(v for _, v in used)
    freedom = jobs - 1 + USUAL_WEIGHT
    variance = ((jobs - 1) * scatter**2 + USUAL_WEIGHT * usual) / freedom
    margin = student_t_quantile(freedom, 0.5 + CONFIDENCE / 2) * math.sqrt(variance / jobs)
    interval = Interval(math.expm1(centre), math.expm1(centre - margin), math.expm1(centre + margin))
    return Verdict(interval, is_confirmed=len(used) > 1 and interval.low > 0.0, is_promising=centre > 0.0)
