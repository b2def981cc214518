# SPDX-License-Identifier: Apache-2.0
"""A job of a study as the review sees a run, so that figures, sensitivities and advice are the report's.

Its windows stand in the order in which they came. They have no times: results come in batches, often long after they
were measured. A result that carries a paired test repeats that test's last window, and is none.
"""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from cachetools import LRUCache

from ringtune.dashboards.figures import Figure, figures_of
from ringtune.service.domain.jobs import StudyJob
from ringtune.service.domain.overview import LedgerResult, ShownStudy
from ringtune.tuner import Config, Phase
from ringtune.tuner.review import Analysis, RunReview, TriedSample, analyse

from .wording import DECIDED, STATES

MAX_KEPT = 32

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class StudyReview:
    """A job's windows, the conclusions from them, and their figures."""

    run: RunReview
    analysis: Analysis
    figures: tuple[Figure, ...]


class StudyReviews:
    """Reviews of jobs, remembered until a result is added. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: LRUCache[Key, StudyReview] = LRUCache(MAX_KEPT)
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def get(self, shown: ShownStudy, job: StudyJob | None) -> StudyReview:
        """Return the review of a job's windows; one is made at a time, for each keeps a core busy for a moment."""
        windows = [result for result in shown.results if job is not None and result.job_id == job.job_id]
        key = _key(shown, job, windows)
        if (kept := self._find(key)) is not None:
            return kept
        with self._turn:
            if (kept := self._find(key)) is not None:
                return kept
            run = review_of(shown, job, windows)
            analysis = analyse(run)
            made = StudyReview(run, analysis, tuple(figures_of(run, analysis)) if run.tried else ())
        with self._lock:
            self._kept[key] = made
        return made

    def _find(self, key: Key) -> StudyReview | None:
        with self._lock:
            return self._kept.get(key)


def _key(shown: ShownStudy, job: StudyJob | None, windows: Sequence[LedgerResult]) -> Key:
    """Return all that a review depends on and that may change: the windows, the decision, and names."""
    study, newest = shown.study, windows[-1].number if windows else 0
    decided = () if job is None else (job.job_id, job.state, job.verdict, *_decision(job).values())
    return study.study_id, newest, len(windows), study.model_name, decided


def review_of(shown: ShownStudy, job: StudyJob | None, results: Sequence[LedgerResult]) -> RunReview:
    """Return a job's windows and its decision, as the review has a run.

    Args:
        shown: The study.
        job: The job; None where none has a window.
        results: Results of the job, the oldest first.
    """
    study = shown.study
    windows = [result for result in results if result.counts and result.speedup is None]
    decision = _decision(job)
    return RunReview(
        run_id=study.study_id if job is None else job.job_id,
        verdict="no job" if job is None else job.verdict or STATES[job.state],
        is_complete=job is not None and job.state in DECIDED,
        baseline=_baseline(windows),
        **decision,
        pairs=0 if job is None or job.test is None else job.test.pairs,
        cost_s=None,
        payback_steps=None,
        unix_time_s=None,
        seconds=0.0,
        tried=_tried(windows),
        target=study.key.target,
        model_name=study.model_name,
        ranks_per_host=study.key.layout,
        search_space=dict(shown.space),
    )


def _decision(job: StudyJob | None) -> dict[str, Any]:
    """Return the fields with a job's choice and its evidence; a job that keeps the default has no gain."""
    if job is None or job.test is None or job.state != "adopted":
        return {"adopted": False, "chosen": None, "speedup": None, "ci_low": None, "ci_high": None}
    evidence = {"speedup": job.test.speedup, "ci_low": job.test.ci_low, "ci_high": job.test.ci_high}
    return {"adopted": True, "chosen": job.tested, **evidence}


def _baseline(windows: Sequence[LedgerResult]) -> Config | None:
    """Return the config that most jobs' windows of the baseline have."""
    configs = Counter(result.config for result in windows if result.phase == Phase.BASELINE)
    return configs.most_common(1)[0][0] if configs else None


def _tried(windows: Sequence[LedgerResult]) -> tuple[TriedSample, ...]:
    numbers: dict[Config, int] = {}
    return tuple(
        TriedSample(
            trial_id=numbers.setdefault(result.config, len(numbers)),
            phase=result.phase,
            config=result.config,
            score_bytes_per_s=result.score_bytes_per_s,
            step_ms=result.median_step_ms,
            steps=result.steps,
            valid=result.valid,
            reason=result.void_reason,
            expected_score=None,
            mad_ms=result.mad_step_ms,
        )
        for result in windows
    )
