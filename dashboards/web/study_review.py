# SPDX-License-Identifier: Apache-2.0
"""A study as the review sees a run, so that figures, sensitivities and advice are the report's.

The windows of all jobs stand in the order in which they came. They have no times: results come in batches, often long
after they were measured. A result that carries a paired test repeats that test's last window, and is none.
"""

import threading
from collections import Counter, OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ringtune.dashboards.figures import Figure, figures_of
from ringtune.service.domain.overview import BestConfig, ShownStudy, StoredResult
from ringtune.tuner import Config, Phase
from ringtune.tuner.review import Analysis, RunReview, TriedSample, analyse

from .wording import finding_of

MAX_KEPT = 32

Key: TypeAlias = tuple[object, ...]


@dataclass(frozen=True)
class StudyReview:
    """A study's windows, what they teach, and its figures."""

    run: RunReview
    analysis: Analysis
    figures: tuple[Figure, ...]


class StudyReviews:
    """Reviews of studies, remembered until a result is added. Methods may be called from any thread."""

    def __init__(self) -> None:
        """Begin with none."""
        self._kept: OrderedDict[Key, StudyReview] = OrderedDict()
        self._lock = threading.Lock()
        self._turn = threading.Lock()

    def get(self, shown: ShownStudy, job_id: str | None = None) -> StudyReview:
        """Return a study's review; one is made at a time, for each keeps a core busy for a moment."""
        key = _key(shown, job_id)
        if (kept := self._find(key)) is not None:
            return kept
        with self._turn:
            if (kept := self._find(key)) is not None:
                return kept
            run = review_of(shown)
            analysis = analyse(run)
            made = StudyReview(run, analysis, tuple(figures_of(run, analysis)) if run.tried else ())
        with self._lock:
            self._kept[key] = made
            while len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        return made

    def _find(self, key: Key) -> StudyReview | None:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
            return self._kept.get(key)


def _key(shown: ShownStudy, job_id: str | None) -> Key:
    """Return all that a review depends on and that may change: the windows, what was found, and what it is called."""
    study, newest = shown.study, shown.results[-1].number if shown.results else 0
    chosen = tuple(_decision(study.best).values())
    return study.study_id, job_id, newest, len(shown.results), study.model_name, finding_of(study), chosen


def review_of(shown: ShownStudy) -> RunReview:
    """Return a study's windows and what was found, as the review has a run."""
    study = shown.study
    windows = [result for result in shown.results if result.counts and result.speedup is None]
    finding = finding_of(study)
    return RunReview(
        run_id=study.study_id,
        verdict=f"{finding.label}: {finding.headline}",
        is_complete=True,
        baseline=_baseline(windows),
        **_decision(study.best),
        pairs=sum(result.pairs or 0 for result in shown.results),
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


def _decision(best: BestConfig | None) -> dict[str, Any]:
    """Return the fields that say what was chosen, and on what evidence."""
    if best is None:
        return {"adopted": False, "chosen": None, "speedup": None, "ci_low": None, "ci_high": None}
    found = best.evidence
    evidence = {"speedup": found.speedup, "ci_low": found.ci_low, "ci_high": found.ci_high}
    return {"adopted": best.is_confirmed, "chosen": best.config, **evidence}


def _baseline(windows: Sequence[StoredResult]) -> Config | None:
    """Return the config that most jobs' windows of the baseline have."""
    configs = Counter(result.config for result in windows if result.phase == Phase.BASELINE)
    return configs.most_common(1)[0][0] if configs else None


def _tried(windows: Sequence[StoredResult]) -> tuple[TriedSample, ...]:
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
