# SPDX-License-Identifier: Apache-2.0
"""Several studies side by side."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.figures.figure import Figure
from ringtune.dashboards.figures.speedups import Compared, speedups_figure, step_times_figure
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.study_jobs import decided_job, label_of
from ringtune.dashboards.web.study_review import StudyReviews
from ringtune.dashboards.web.tables import csv_reply
from ringtune.dashboards.web.wording import (
    change_of,
    finding_of,
    hardware_of,
    layout,
    milliseconds,
    name_of,
    start_of,
    told_verdicts,
)
from ringtune.service.domain.overview import ListedStudy, ShownStudy
from ringtune.service.errors import InvalidRequest
from ringtune.tuner.review import comparison

from .dependencies import READERS_PAGE, OverviewDep, ReviewsDep, new_router, on_page_threads

MAX_COMPARED = 6
SAID_ABOVE = frozenset({"log", "verdict", "speed-up", "steps per second", "baseline"})
"""Rows of the comparison that the page shows of all jobs of a study, in its own way."""
UNKNOWN = "-"

Row: TypeAlias = tuple[str, tuple[str, ...], bool]
"""A question, the answer of each study, and whether they differ."""

router = new_router()


@router.get("/compare", dependencies=READERS_PAGE)
@on_page_threads
def compare(
    request: Request,
    overview: OverviewDep,
    reviews: ReviewsDep,
    study: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Response:
    """Compare studies; without any, say how to choose them."""
    ids = _chosen(study)
    found = overview.some(ids)
    drawn, shown = compared(found), [overview.study(item.study_id) for item in found]
    context = {
        "studies": found,
        "missing": len(ids) - len(found),
        "rows": _rows(shown, reviews),
        "jobs": [None if (job := decided_job(item)) is None else label_of(job) for item in shown],
        "figures": comparison_figures(found, drawn),
    }
    return respond(request, "compare.html.j2", context)


@router.get("/compare.csv", dependencies=READERS_PAGE)
@on_page_threads
def compare_csv(
    *,
    request: Request,
    overview: OverviewDep,
    reviews: ReviewsDep,
    study: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Response:
    """Return the table of the comparison, a column per study."""
    del request
    found = overview.some(_chosen(study))
    names = [item.name for item in compared(found)]
    shown = [overview.study(item.study_id) for item in found]
    answers = {**_facts(found), **{name: cells for name, cells, _ in _rows(shown, reviews)}}
    rows = [{"question": name, **dict(zip(names, cells, strict=True))} for name, cells in answers.items()]
    return csv_reply("comparison", rows)


def _facts(studies: Sequence[ListedStudy]) -> dict[str, list[str]]:
    """Return the comparison of all jobs of each study."""
    return {
        "study": [item.study_id for item in studies],
        "found": [finding_of(item).label for item in studies],
        "verdicts": [", ".join(text for _, text in told_verdicts(item)) for item in studies],
        "a job starts with": [start_of(item)[1] for item in studies],
        "step under the baseline": [milliseconds(item.baseline_step_ms) for item in studies],
    }


def _chosen(study: list[str] | None) -> list[str]:
    """Return the ids that were chosen; raises InvalidRequest for too many."""
    ids = list(dict.fromkeys(study or []))
    if len(ids) > MAX_COMPARED:
        raise InvalidRequest(f"{len(ids)} studies were chosen; up to {MAX_COMPARED} stand side by side: choose fewer")
    return ids


def compared(
    studies: Sequence[ListedStudy], *, by_hardware: bool = False, names: Sequence[str] | None = None
) -> list[Compared]:
    """Return studies as figures take them, under names that differ.

    Args:
        studies: The compared studies.
        by_hardware: Whether they are named by their machines, not by their models.
        names: Their names; None makes them.
    """
    found: list[Compared] = []
    seen: set[str] = set()
    for number, study in enumerate(studies):
        made = f"{hardware_of(study) if by_hardware else name_of(study)}, {layout(study.key.layout)}"
        name = made if names is None else names[number]
        name = f"{name} ({study.study_id[:6]})" if name in seen else name
        seen.add(name)
        change = change_of(study.best.evidence) if study.best and study.best.is_confirmed else None
        found.append(Compared(name, change, study.baseline_step_ms))
    return found


def comparison_figures(studies: Sequence[ListedStudy], drawn: Sequence[Compared]) -> list[Figure]:
    """Return the figures of compared studies; step times are drawn of one model alone, for several do not compare."""
    has_one_model = len({study.key.model for study in studies}) == 1
    makers = (speedups_figure, step_times_figure) if has_one_model else (speedups_figure,)
    return [figure for make in makers if (figure := make(drawn))]


def _rows(shown: Sequence[ShownStudy], reviews: StudyReviews) -> list[Row]:
    """Return the comparison of the newest decided job of each study."""
    if not shown:
        return []
    kept = [reviews.get(item, decided_job(item)) for item in shown]
    named = [(item.study.study_id, review.run, review.analysis) for item, review in zip(shown, kept, strict=True)]
    rows = [(name, cells) for name, cells in comparison(named) if name not in SAID_ABOVE]
    return [(name, cells, len({*cells} - {UNKNOWN}) > 1) for name, cells in rows]
