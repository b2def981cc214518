# SPDX-License-Identifier: Apache-2.0
"""A study's jobs as people read them: the outcome of each, and the reason for it."""

from collections.abc import Iterable
from dataclasses import dataclass

from ringtune.service.domain.jobs import StudyJob
from ringtune.service.domain.overview import JobPart, LedgerResult, ShownStudy
from ringtune.system.counts import counted
from ringtune.tuner import Phase
from ringtune.tuner.review import words

from .wording import DECIDED, STATES, duration, short


@dataclass(frozen=True)
class JobRow:
    """A job's part in a study.

    Attributes:
        job: The job, as the service stores it.
        label: Its name, or where its id begins.
        state: Its state, in words.
        detail: The reason, or the finding.
        used: Results that are used.
        baseline_ms: Step time under its baseline, the geometric mean of its windows; or None.
        fastest_ms: The shortest median step time of any of its windows, or None.
    """

    job: StudyJob
    label: str
    state: str
    detail: str
    used: int
    baseline_ms: float | None
    fastest_ms: float | None


def job_rows(shown: ShownStudy) -> list[JobRow]:
    """Return the jobs of a study that its page shows, those that were heard of last first."""
    return [job_row(job, shown.parts.get(job.job_id, JobPart())) for job in shown.jobs]


def job_row(job: StudyJob, part: JobPart) -> JobRow:
    """Return a job's row, from its results in its study."""
    return JobRow(
        job=job,
        label=label_of(job),
        state=STATES[job.state],
        detail=_detail(job, part.phase),
        used=part.used,
        baseline_ms=part.baseline_ms,
        fastest_ms=part.fastest_ms,
    )


def leading_job(shown: ShownStudy, wanted: str = "") -> StudyJob | None:
    """Return the job whose windows a page draws: the one that is wanted, else one that runs, else the newest decided.

    Windows of several jobs are never drawn on one axis: the machine was not equally fast for every job.
    """
    if wanted:
        return next((job for job in shown.jobs if job.job_id == wanted), None)
    running = next((job for job in _measured(shown) if job.state == "running"), None)
    return running or decided_job(shown)


def decided_job(shown: ShownStudy) -> StudyJob | None:
    """Return the newest job that came to a verdict, of those with windows; without one the newest of these."""
    measured = _measured(shown)
    return next((job for job in measured if job.state in DECIDED), measured[0] if measured else None)


def _measured(shown: ShownStudy) -> list[StudyJob]:
    """Return the jobs with windows that are shown, those that were heard of last first."""
    with_windows = {result.job_id for result in shown.results if result.counts}
    return [job for job in shown.jobs if job.job_id in with_windows]


def label_of(job: StudyJob) -> str:
    """Return a job's name, or where its id begins."""
    return job.name or short(job.job_id)


def step_times(results: Iterable[LedgerResult]) -> list[float]:
    """Return the median step times of valid windows after the warm-up."""
    usable = (result for result in results if result.valid and result.phase != Phase.WARMUP)
    return [result.median_step_ms for result in usable if result.median_step_ms is not None]


def _detail(job: StudyJob, phase: str | None) -> str:
    """Return why a job is in its state. A gain is told of an adopted config alone."""
    if job.state == "running":
        return "it has announced itself" if phase is None else f"in its {phase} phase"
    if job.state == "adopted":
        return _adopted(job)
    if job.state == "keeping_default":
        return _kept(job)
    if job.state == "ended_early":
        return f"it ended after {counted(job.results, 'result')}, before a decision"
    return f"silent for {duration(job.idle_s)} without a decision; {duration(job.silence_limit_s)} are usual at most"


def _adopted(job: StudyJob) -> str:
    if job.test is None:
        return job.verdict or "its log says so"
    low, high, level = words.percent(job.test.ci_low), words.percent(job.test.ci_high), 100 * job.test.ci_level
    gain = f"{words.percent(job.test.speedup)} ({level:g} % interval {low} to {high})"
    return f"{gain} in its own paired test of {counted(job.test.pairs, 'pair')}"


def _kept(job: StudyJob) -> str:
    if job.test is not None:
        return f"{counted(job.test.pairs, 'pair')} of a test did not show another config to be faster"
    reason = (job.verdict or "").partition(":")[2].strip()
    return reason or "nothing was worth a paired test"
