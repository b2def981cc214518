# SPDX-License-Identifier: Apache-2.0
"""One study: verdicts of its jobs, evidence, settings to paste, figures of one job; live while a job runs."""

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Annotated, Any

from fastapi import Path, Query
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.web.config_snippets import ConfigUse, snippets_of
from ringtune.dashboards.web.paths import study_path
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.study_jobs import job_rows, leading_job, step_times
from ringtune.dashboards.web.study_review import StudyReview
from ringtune.dashboards.web.wording import NO_PROMISE, finding_of, live_words, name_of, trust, with_bounds
from ringtune.service.domain.overview import BestConfig, LedgerResult, ListedStudy
from ringtune.tuner import Config, Value
from ringtune.tuner.review import advice, words
from ringtune.tuner.review.sensitivity import MATTERS
from ringtune.tuner.space.readable import readable_value

from .dependencies import READERS_PAGE, OverviewDep, ReviewsDep, new_router, on_page_threads

MAX_SHOWN_CONFIGS = 100
MAX_SHOWN_JOBS = 50
FIRST_JOBS = 3
"""Jobs that are shown at once; the others are folded."""
MAX_SHOWN_RESULTS = 100
FIRST_FIGURES = ("convergence", "distribution")
"""Figures that show measurements; the others rest on a model of them."""

router = new_router()


@router.get(study_path("{study_id}"), dependencies=READERS_PAGE)
@on_page_threads
def study(
    request: Request,
    overview: OverviewDep,
    reviews: ReviewsDep,
    study_id: Annotated[str, Path(max_length=64)],
    job: Annotated[str, Query(max_length=64)] = "",
) -> Response:
    """Show a study; the figures are those of one job."""
    shown = overview.study(study_id, job or None)
    listed, rows = shown.study, job_rows(shown)
    drawn = leading_job(shown, job)
    review = reviews.get(shown, drawn)
    run = review.run
    context = {
        "shown": shown,
        "needs_figures": True,
        "study": listed,
        "finding": finding_of(listed),
        "live": live_words(listed.states, listed.idle_s),
        "is_running": bool(listed.states.get("running")),
        "job": job,
        "drawn": drawn,
        **_figures(review),
        "findings": [*advice(run, review.analysis), words.noise(run, review.analysis)] if run.tried else [],
        "parameters": () if listed.best is None else changes(listed.best),
        "snippets": () if listed.best is None else _snippets(listed, listed.best),
        "configs": shown.configs[:MAX_SHOWN_CONFIGS],
        "is_compared": any(item.evidence.jobs for item in shown.configs),
        "varied": varied(shown.configs),
        "medians": medians(shown.results),
        "trust": trust(shown.configs),
        "jobs": rows[:MAX_SHOWN_JOBS],
        "first_jobs": FIRST_JOBS,
        "results": shown.results[: -MAX_SHOWN_RESULTS - 1 : -1],
        "asks": place_of(listed),
    }
    return respond(request, "study.html.j2", context)


def _figures(review: StudyReview) -> dict[str, Any]:
    """Return a job's figures: those of its measurements, and the others, which are folded if no conclusion is known."""
    measured = [figure for figure in review.figures if figure.name in FIRST_FIGURES]
    modelled = [figure for figure in review.figures if figure.name not in FIRST_FIGURES]
    return {
        "figures": review.figures,
        "measured": measured,
        "modelled": modelled,
        "is_known": any(item.finding == MATTERS for item in review.analysis.sensitivities),
    }


def varied(configs: Sequence[BestConfig]) -> list[str]:
    """Return the parameters of which the configs have several values."""
    names = dict.fromkeys(name for item in configs for name in item.config)
    return [name for name in names if len({item.config.get(name) for item in configs}) > 1]


def changes(best: BestConfig) -> list[tuple[str, str, str]]:
    """Return each parameter with its value under the baseline that the speed-up is over, and under the best config.

    Values that look the same after rounding are given in full.
    """
    baseline: Mapping[str, Value] = best.evidence.baseline or {}
    rows = []
    for name, value in best.config.items():
        before, after = readable_value(name, baseline.get(name)), readable_value(name, value)
        is_hidden = before == after and value != baseline.get(name)
        rows.append((name, str(baseline.get(name)), str(value)) if is_hidden else (name, before, after))
    return rows


def place_of(study: ListedStudy) -> ConfigUse:
    """Return where a study's best config is to be used."""
    key = study.key
    return ConfigUse(
        model=study.model_name,
        hardware=key.hardware,
        world_size=key.world_size,
        local_size=max(key.layout),
        target=key.target,
    )


def _snippets(study: ListedStudy, best: BestConfig) -> object:
    """Return the texts to paste; a gain is named where it is confirmed, and nowhere else."""
    evidence = f"confirmed: {with_bounds(best.evidence)}" if best.is_confirmed else NO_PROMISE
    return snippets_of(best.config, place_of(study), f"{name_of(study)}, {evidence}")


def medians(results: Sequence[LedgerResult]) -> dict[Config, float]:
    """Return the median of each config's median step times."""
    groups: dict[Config, list[LedgerResult]] = {}
    for result in results:
        if result.counts:
            groups.setdefault(result.config, []).append(result)
    times = {config: step_times(group) for config, group in groups.items()}
    return {config: median(values) for config, values in times.items() if values}
