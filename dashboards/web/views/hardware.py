# SPDX-License-Identifier: Apache-2.0
"""Hardware: what was measured on what, and one model on all of it."""

from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.figures.speedups import speedups_figure, step_times_figure
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.wording import name_of, short
from ringtune.service.api.access import needs

from .compare import compared
from .parts import OverviewDep, PageNumber, Text, new_router, on_page_threads

PAGE = 50
MODELS = 20
MAX_DRAWN = 20

router = new_router()


@router.get("/hardware", openapi_extra=needs("read"))
@on_page_threads
def hardware(request: Request, overview: OverviewDep, q: Text = "", model: Text = "", page: PageNumber = 1) -> Response:
    """List hardware, or compare it by one model."""
    if model:
        studies = overview.of_model(model)
        drawn = compared(studies[:MAX_DRAWN], by_hardware=True)
        context = {
            "model": model,
            "name": name_of(studies[0]) if studies else f"model {short(model)}",
            "studies": studies,
            "figures": [figure for make in (speedups_figure, step_times_figure) if (figure := make(drawn))],
            "left_out": max(0, len(studies) - MAX_DRAWN),
        }
        return respond(request, "hardware_model.html.j2", context)
    context = {
        "hardware": overview.hardware(q.strip(), page=page, limit=PAGE),
        "models": overview.models(q.strip(), MODELS),
        "q": q,
        "page": page,
        "has_more": bool(overview.hardware(q.strip(), page=page * PAGE + 1, limit=1)),
    }
    return respond(request, "hardware.html.j2", context)
