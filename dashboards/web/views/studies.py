# SPDX-License-Identifier: Apache-2.0
"""All studies: searched, filtered, sorted and cut into pages by the database."""

from dataclasses import asdict

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ringtune.dashboards.web.paths import STUDIES
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.wording import told_mean_gain
from ringtune.service.domain.overview import MeanGain

from .dependencies import (
    DEFAULT_SORT,
    READERS_PAGE,
    AskedStudiesDep,
    OverviewDep,
    PageNumber,
    new_router,
    on_page_threads,
    pages_of,
)

PAGE = 50
SORTS = (
    ("created", "Newest first"),
    ("-created", "Oldest first"),
    ("activity", "Latest result first"),
    ("-activity", "Latest result last"),
    ("speedup", "Largest confirmed speed-up first"),
    ("-speedup", "Smallest confirmed speed-up first"),
    ("-model", "Model, A to Z"),
    ("model", "Model, Z to A"),
    ("-hardware", "Hardware, A to Z"),
    ("hardware", "Hardware, Z to A"),
)

router = new_router()


@router.get("/", dependencies=READERS_PAGE)
async def start() -> RedirectResponse:
    """Lead to the studies."""
    return RedirectResponse(STUDIES, 303)


@router.get(STUDIES, dependencies=READERS_PAGE)
@on_page_threads
def studies(request: Request, overview: OverviewDep, asked: AskedStudiesDep, page: PageNumber = 1) -> Response:
    """List studies."""
    found = overview.studies(asked.wanted, asked.order, page=page, limit=PAGE)
    given = {name: value for name, value in asdict(asked).items() if name != "sort"}
    context = {
        "studies": found.items,
        "gain": told_mean_gain(sum((study.gain for study in found.items), MeanGain())),
        "targets": overview.targets(),
        "given": given,
        "is_filtered": any(given.values()),
        "sort": asked.sort,
        "sorts": SORTS,
        "parameters": {**given, "sort": "" if asked.sort == DEFAULT_SORT else asked.sort},
        "pages": pages_of(found.total, page, PAGE),
        "service_url": str(request.base_url).rstrip("/"),
    }
    return respond(request, "studies.html.j2", context)
