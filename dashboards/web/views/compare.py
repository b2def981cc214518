# SPDX-License-Identifier: Apache-2.0
"""Several studies side by side."""

from collections.abc import Sequence
from typing import Annotated, TypeAlias

from fastapi import Query
from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.figures.speedups import Compared, speedups_figure, step_times_figure
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.study_review import StudyReviews
from ringtune.dashboards.web.wording import change_of, hardware_of, layout, name_of
from ringtune.service.api.access import needs
from ringtune.service.domain.overview import ListedStudy, Overview
from ringtune.service.errors import InvalidRequest
from ringtune.tuner.review import comparison

from .parts import OverviewDep, ReviewsDep, new_router, on_page_threads

MAX_COMPARED = 6
SAID_ABOVE = frozenset({"log", "verdict", "speed-up"})
"""Rows of the comparison that the page shows in its own way."""
UNKNOWN = "-"

Row: TypeAlias = tuple[str, tuple[str, ...], bool]
"""A question, the answer of each study, and whether they differ."""

router = new_router()


@router.get("/compare", openapi_extra=needs("read"))
@on_page_threads
def compare(
    request: Request,
    overview: OverviewDep,
    reviews: ReviewsDep,
    study: Annotated[list[str] | None, Query(max_length=100)] = None,
) -> Response:
    """Compare studies; without any, say how to choose them."""
    ids = list(dict.fromkeys(study or []))
    if len(ids) > MAX_COMPARED:
        raise InvalidRequest(f"{len(ids)} studies were chosen; up to {MAX_COMPARED} stand side by side: choose fewer")
    found = overview.some(ids)
    drawn = compared(found)
    context = {
        "studies": found,
        "missing": len(ids) - len(found),
        "rows": _rows(found, overview, reviews),
        "figures": [figure for make in (speedups_figure, step_times_figure) if (figure := make(drawn))],
    }
    return respond(request, "compare.html.j2", context)


def compared(studies: tuple[ListedStudy, ...], *, by_hardware: bool = False) -> list[Compared]:
    """Return studies as figures take them, under names that differ."""
    found: list[Compared] = []
    seen: set[str] = set()
    for study in studies:
        name = f"{hardware_of(study) if by_hardware else name_of(study)}, {layout(study.key.layout)}"
        name = f"{name} ({study.study_id[:6]})" if name in seen else name
        seen.add(name)
        change = change_of(study.best.evidence) if study.best else None
        found.append(Compared(name, change, study.baseline_step_ms))
    return found


def _rows(studies: Sequence[ListedStudy], overview: Overview, reviews: StudyReviews) -> list[Row]:
    """Return what is compared."""
    if not studies:
        return []
    kept = [reviews.get(overview.study(study.study_id)) for study in studies]
    named = [(study.study_id, review.run, review.analysis) for study, review in zip(studies, kept, strict=True)]
    rows = [(name, cells) for name, cells in comparison(named) if name not in SAID_ABOVE]
    return [(name, cells, len({*cells} - {UNKNOWN}) > 1) for name, cells in rows]
