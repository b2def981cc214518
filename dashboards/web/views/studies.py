# SPDX-License-Identifier: Apache-2.0
"""All studies: searched, filtered, sorted and cut into pages by the database."""

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ringtune.dashboards.web.rendering import respond
from ringtune.service.api.access import needs
from ringtune.service.domain.overview import Wanted

from .parts import OverviewDep, PageNumber, Text, new_router, on_page_threads, pages_of

PAGE = 50
PATH = "/studies"
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
DEFAULT_SORT = "created"

router = new_router()


@router.get("/", openapi_extra=needs("read"))
async def start() -> RedirectResponse:
    """Lead to the studies."""
    return RedirectResponse(PATH, 303)


@router.get(PATH, openapi_extra=needs("read"))
@on_page_threads
def studies(
    *,
    request: Request,
    overview: OverviewDep,
    q: Text = "",
    target: Text = "",
    finding: Text = "",
    model: Text = "",
    hardware: Text = "",
    sort: Text = DEFAULT_SORT,
    page: PageNumber = 1,
) -> Response:
    """List studies."""
    wanted = Wanted(q.strip(), target or None, model or None, hardware or None, finding or None)
    found = overview.studies(wanted, sort or DEFAULT_SORT, page=page, limit=PAGE)
    given = {"q": q, "target": target, "finding": finding, "model": model, "hardware": hardware}
    context = {
        "studies": found.items,
        "targets": overview.targets(),
        "given": given,
        "is_filtered": any(given.values()),
        "sort": sort,
        "sorts": SORTS,
        "parameters": {**given, "sort": "" if sort == DEFAULT_SORT else sort},
        "pages": pages_of(found.total, page, PAGE),
        "service_url": str(request.base_url).rstrip("/"),
    }
    return respond(request, "studies.html.j2", context)
