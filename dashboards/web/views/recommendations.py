# SPDX-License-Identifier: Apache-2.0
"""The start of a job: the question as a form, the answer with its evidence, and settings to paste."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ringtune.dashboards.web.config_snippets import ConfigUse, snippets_of
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.wording import NO_PROMISE, SPEED_UP, short, speedup, with_bounds
from ringtune.service.api.dependencies import ServiceDep
from ringtune.service.domain.overview import Counted, Overview
from ringtune.service.domain.values import RecommendationQuery
from ringtune.service.errors import InvalidRequest
from ringtune.shared_service.advice.answers import is_pasted
from ringtune.shared_service.rest_models import Recommendation
from ringtune.tuner import Config
from ringtune.tuner.review.summary import RINGTUNE
from ringtune.tuner.space.readable import readable_value

from .dependencies import READERS_PAGE, OverviewDep, new_router, on_page_threads

FIELDS = ("model", "model_fingerprint", "hardware", "world_size", "local_size", "target")
MAX_FIELD = 200
MAX_OFFERED = 200
FINGERPRINT_LENGTH = 64
ANY_MACHINE = "any"
"""Machine of the command that asks again, where the form asks for any."""
ADOPTED = {"exact": "Adopted for exactly this", "nearest": "Adopted near this"}
KEPT = {"exact": "The default: jobs of exactly this keep it", "default": "The default"}
"""Headlines by the source of the answer."""

router = new_router()


@router.get("/recommendations", dependencies=READERS_PAGE)
@on_page_threads
def recommendations(request: Request, overview: OverviewDep, service: ServiceDep) -> Response:
    """Ask for a start, and show the answer."""
    given = {name: request.query_params.get(name, "").strip()[:MAX_FIELD] for name in FIELDS}
    context: dict[str, Any] = {"given": given, "error": "", "answer": None, **_offers(overview)}
    status = 200
    if given["model"] or given["model_fingerprint"]:
        try:
            query = _query(given)
            context["answer"] = _answer(given, query, service.recommendations.find(query))
        except InvalidRequest as error:
            context["error"], status = error.detail, error.status
    return respond(request, "recommendations.html.j2", context, status)


def _answer(given: Mapping[str, str], query: RecommendationQuery, found: Recommendation) -> dict[str, Any]:
    model, machines = given["model"] or given["model_fingerprint"], query.hardware or ANY_MACHINE
    use = ConfigUse(model, machines, query.world_size, query.local_size, found.target)
    is_confirmed, pasted = found.standing == "confirmed", is_pasted(found)
    comment = f"confirmed: {with_bounds(found.evidence)}" if is_confirmed else NO_PROMISE
    headline = ADOPTED[found.source] if pasted else KEPT[found.source]
    return {
        "found": found,
        "is_confirmed": is_confirmed,
        "is_pasted": pasted,
        "kind": found.standing if pasted else "none",
        "headline": f"{headline}: {speedup(found.evidence)} {SPEED_UP}" if is_confirmed else headline,
        "parameters": [(name, readable_value(name, value)) for name, value in found.config.items()],
        "snippets": snippets_of(Config(found.config), use, comment),
    }


def _offers(overview: Overview) -> dict[str, Any]:
    """Return the choices of the form: measured models and machines."""
    layouts = overview.layouts()
    return {
        "models": [(item.fingerprint, _option(item)) for item in overview.models(limit=MAX_OFFERED)],
        "machines": [(item.fingerprint, _option(item)) for item in overview.hardware(limit=MAX_OFFERED)],
        "world_sizes": sorted({sum(ranks) for ranks in layouts}),
        "local_sizes": sorted({max(ranks) for ranks in layouts}),
        "targets": overview.targets() or (RINGTUNE,),
    }


def _option(item: Counted) -> str:
    """Return a machine or a model as the form offers it."""
    named = item.name or short(item.fingerprint)
    return f"{named} ({item.machines})" if item.machines and item.machines != item.name else named


def _query(given: Mapping[str, str]) -> RecommendationQuery:
    """Return the question; raises InvalidRequest for fields that cannot be one."""
    for name in ("model_fingerprint", "hardware"):
        if given[name] and not _is_fingerprint(given[name]):
            raise InvalidRequest(
                f"{name}: {given[name][:80]!r} is no fingerprint; give its 64 digits of 0-9a-f, or none"
            )
    world_size = _count("world_size", given["world_size"] or "1")
    return RecommendationQuery(
        hardware=given["hardware"] or None,
        world_size=world_size,
        local_size=_count("local_size", given["local_size"] or str(world_size)),
        model=given["model_fingerprint"] or None,
        model_name=given["model"] or None,
        target=given["target"] or "ringtune",
    )


def _is_fingerprint(text: str) -> bool:
    return len(text) == FINGERPRINT_LENGTH and set(text) <= set("0123456789abcdef")


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 9):
        raise InvalidRequest(f"{name}: {text[:80]!r} is no count of ranks; give a whole number from 1")
    return int(text)
