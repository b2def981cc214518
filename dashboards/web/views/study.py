# SPDX-License-Identifier: Apache-2.0
"""One study: what it found, settings to paste, figures, configs, jobs; live while its jobs tune."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.web.pastes import Place, pastes
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.wording import finding_of, name_of, with_bounds
from ringtune.service.api.access import needs
from ringtune.service.domain.overview import BestConfig, ListedStudy, ShownStudy, StoredResult
from ringtune.service.domain.values import Evidence
from ringtune.tuner import Config, Phase, Value
from ringtune.tuner.readable import readable_value
from ringtune.tuner.review import advice, words

from .parts import OverviewDep, ReviewsDep, new_router, on_page_threads

MAX_SHOWN_CONFIGS = 100
MAX_SHOWN_JOBS = 50
MAX_SHOWN_RESULTS = 100

router = new_router()


@dataclass(frozen=True)
class JobRow:
    """A job's part in a study.

    Attributes:
        job_id: The job.
        results: Results that count.
        kept_apart: Results that do not.
        phase: Of its newest result.
        baseline_ms: Median step time under its baseline, or None.
        fastest_ms: The shortest median step time of any of its windows, or None.
        test: What its paired test found, "-" without one.
        age_s: Since its newest result.
    """

    job_id: str
    results: int
    kept_apart: int
    phase: str
    baseline_ms: float | None
    fastest_ms: float | None
    test: str
    age_s: float


@router.get("/studies/{study_id}", openapi_extra=needs("read"))
@on_page_threads
def study(
    request: Request,
    overview: OverviewDep,
    reviews: ReviewsDep,
    study_id: Annotated[str, Path(max_length=64)],
    job: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show a study, or one job's part of it."""
    shown = overview.study(study_id, job or None)
    review = reviews.get(shown, job or None)
    listed, run = shown.study, review.run
    context = {
        "shown": shown,
        "needs_figures": True,
        "study": listed,
        "finding": finding_of(listed),
        "job": job,
        "figures": review.figures,
        "findings": [*advice(run, review.analysis), words.noise(review.analysis)] if run.tried else [],
        "parameters": () if listed.best is None else _changes(listed.best),
        "pastes": () if listed.best is None else _pastes(listed, listed.best),
        "configs": shown.configs[:MAX_SHOWN_CONFIGS],
        "varied": _varied(shown.configs),
        "medians": _medians(shown.results),
        "jobs": _jobs(shown)[:MAX_SHOWN_JOBS],
        "results": shown.results[: -MAX_SHOWN_RESULTS - 1 : -1],
        "asks": place_of(listed),
    }
    return respond(request, "study.html.j2", context)


def _varied(configs: Sequence[BestConfig]) -> list[str]:
    """Return the parameters of which the configs have several values."""
    names = dict.fromkeys(name for item in configs for name in item.config)
    return [name for name in names if len({item.config.get(name) for item in configs}) > 1]


def _changes(best: BestConfig) -> list[tuple[str, str, str]]:
    """Return each parameter with its value under the baseline that the speed-up is over, and under the best config."""
    baseline: Mapping[str, Value] = best.evidence.baseline or {}
    after = best.config
    return [(name, readable_value(name, baseline.get(name)), readable_value(name, after[name])) for name in after]


def place_of(study: ListedStudy) -> Place:
    """Return where a study's best config is to be used."""
    key = study.key
    return Place(
        model=study.model_name,
        hardware=key.hardware,
        world_size=key.world_size,
        local_size=max(key.layout),
        target=key.target,
    )


def _pastes(study: ListedStudy, best: BestConfig) -> object:
    finding = finding_of(study)
    return pastes(best.config, place_of(study), f"{name_of(study)}, {finding.label}: {with_bounds(best.evidence)}")


def _medians(results: Sequence[StoredResult]) -> dict[Config, float]:
    """Return the median of each config's median step times."""
    groups: dict[Config, list[StoredResult]] = {}
    for result in results:
        if result.counts:
            groups.setdefault(result.config, []).append(result)
    times = {config: _step_times(group) for config, group in groups.items()}
    return {config: median(values) for config, values in times.items() if values}


def _step_times(results: Iterable[StoredResult]) -> list[float]:
    """Return the median step times of valid windows after the warm-up."""
    usable = (result for result in results if result.valid and result.phase != Phase.WARMUP)
    return [result.median_step_ms for result in usable if result.median_step_ms is not None]


def _jobs(shown: ShownStudy) -> list[JobRow]:
    """Return the jobs of the results that are shown, that with the newest result first."""
    groups: dict[str, list[StoredResult]] = {}
    for result in reversed(shown.results):
        groups.setdefault(result.job_id, []).append(result)
    return [_job(job_id, group) for job_id, group in groups.items()]


def _job(job_id: str, newest_first: Sequence[StoredResult]) -> JobRow:
    counting = [result for result in newest_first if result.counts]
    baseline = _step_times(result for result in counting if result.phase == Phase.BASELINE)
    tests = [result for result in counting if result.speedup is not None]
    return JobRow(
        job_id=job_id,
        results=len(counting),
        kept_apart=len(newest_first) - len(counting),
        phase=newest_first[0].phase,
        baseline_ms=median(baseline) if baseline else None,
        fastest_ms=min(_step_times(counting), default=None),
        test=with_bounds(_evidence(tests[0])) if tests else "-",
        age_s=newest_first[0].age_s,
    )


def _evidence(result: StoredResult) -> Evidence:
    return Evidence(speedup=result.speedup, ci_low=result.ci_low, ci_high=result.ci_high)
