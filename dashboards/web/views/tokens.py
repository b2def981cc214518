# SPDX-License-Identifier: Apache-2.0
"""Tokens, for admins: created, listed, revoked."""

from typing import Annotated, Any

from fastapi import Path
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ringtune.dashboards.web.rendering import respond
from ringtune.service.api.access import CALLER_KEY, needs
from ringtune.service.api.parts import ServiceDep
from ringtune.service.domain.service import Service
from ringtune.service.errors import InvalidRequest

from .parts import form_of, new_router, on_page_threads

PATH = "/tokens"
SCOPES = (
    ("read", "look at studies and ask for recommendations"),
    ("report", "report results: what jobs need besides"),
    ("admin", "everything, tokens included"),
)

router = new_router()


@router.get(PATH, openapi_extra=needs("admin"))
@on_page_threads
def list_tokens(request: Request, service: ServiceDep) -> Response:
    """List tokens."""
    return respond(request, "tokens.html.j2", _context(request, service))


@router.post(PATH, openapi_extra=needs("admin"))
async def create(request: Request, service: ServiceDep) -> Response:
    """Create a token and show its secret, this once."""
    fields = await form_of(request)
    name, scopes = "".join(fields.get("name", [])).strip(), fields.get("scope", [])
    try:
        token, secret = await run_in_threadpool(service.tokens.create, name, scopes)
    except InvalidRequest as error:
        context = await run_in_threadpool(_context, request, service)
        given = {"name": name, "scopes": scopes}
        return respond(request, "tokens.html.j2", {**context, "error": error.detail, "given": given}, error.status)
    context = await run_in_threadpool(_context, request, service)
    return respond(request, "tokens.html.j2", {**context, "created": token, "secret": secret}, 201)


@router.post(PATH + "/{token_id}/revoke", openapi_extra=needs("admin"))
@on_page_threads
def revoke(
    request: Request, service: ServiceDep, token_id: Annotated[str, Path(pattern=r"^[0-9a-f]{16,32}$")]
) -> Response:
    """Revoke a token."""
    del request
    service.tokens.revoke(token_id)
    return RedirectResponse(PATH, 303)


def _context(request: Request, service: Service) -> dict[str, Any]:
    tokens, own_id = service.tokens.list(), request.scope.get(CALLER_KEY)
    is_first = not tokens and own_id is None
    return {
        "tokens": tokens,
        "scopes": SCOPES,
        "own_id": own_id,
        "is_first": is_first,
        "error": "",
        "given": {"name": "", "scopes": ["admin"] if is_first else ["read", "report"]},
        "created": None,
        "secret": "",
    }
