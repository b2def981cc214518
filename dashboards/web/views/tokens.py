# SPDX-License-Identifier: Apache-2.0
"""Tokens, for admins: created, listed, revoked, how their results count, their deletion, and signed-in browsers."""

from functools import partial
from typing import Annotated, Any, TypeAlias

from fastapi import Path
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ringtune.dashboards.web.forms import field_of
from ringtune.dashboards.web.rendering import respond
from ringtune.service.api.authorization import CALLER_KEY, SESSION_KEY
from ringtune.service.api.browser_sessions import SignedIn
from ringtune.service.api.dependencies import ServiceDep
from ringtune.service.domain.service import Service
from ringtune.service.errors import InvalidRequest

from .dependencies import ADMINS_PAGE, FormDep, new_router, on_page_threads

PATH = "/tokens"
SCOPES = (
    ("read", "look at studies and ask for recommendations"),
    ("report", "report results; jobs need it beside read"),
    ("admin", "everything, tokens included"),
)

Handle: TypeAlias = Annotated[str, Path(pattern=r"^[0-9a-f]{16}$")]
TokenId: TypeAlias = Annotated[str, Path(pattern=r"^[0-9a-f]{16,32}$")]

router = new_router()


@router.get(PATH, dependencies=ADMINS_PAGE)
@on_page_threads
def list_tokens(request: Request, service: ServiceDep) -> Response:
    """List tokens."""
    return respond(request, "tokens.html.j2", _context(request, service))


@router.post(PATH, dependencies=ADMINS_PAGE)
async def create(request: Request, service: ServiceDep, fields: FormDep) -> Response:
    """Create a token and show its secret, this once."""
    name, scopes = field_of(fields, "name"), fields.get("scope", [])
    is_for_many = bool(field_of(fields, "many_jobs"))
    try:
        create_token = partial(service.tokens.create, name, scopes, has_many_jobs=is_for_many)
        token, secret = await run_in_threadpool(create_token)
    except InvalidRequest as error:
        context = await run_in_threadpool(_context, request, service)
        given = {"name": name, "scopes": scopes, "has_many_jobs": is_for_many}
        return respond(request, "tokens.html.j2", {**context, "error": error.detail, "given": given}, error.status)
    context = await run_in_threadpool(_context, request, service)
    return respond(request, "tokens.html.j2", {**context, "created": token, "secret": secret}, 201)


@router.post(PATH + "/{token_id}/revoke", dependencies=ADMINS_PAGE)
@on_page_threads
def revoke(request: Request, service: ServiceDep, token_id: TokenId) -> Response:
    """Revoke a token."""
    del request
    service.tokens.revoke(token_id)
    return RedirectResponse(PATH, 303)


@router.post(PATH + "/{token_id}/counting", dependencies=ADMINS_PAGE)
async def change_counting(service: ServiceDep, token_id: TokenId, fields: FormDep) -> Response:
    """Count a token's jobs one by one as evidence, or together once."""
    is_for_many = bool(field_of(fields, "many_jobs"))
    await run_in_threadpool(partial(service.token_results.declare, token_id, has_many_jobs=is_for_many))
    return RedirectResponse(PATH, 303)


@router.post(PATH + "/{token_id}/delete-results", dependencies=ADMINS_PAGE)
@on_page_threads
def delete_results(request: Request, service: ServiceDep, token_id: TokenId) -> Response:
    """Delete all that was reported with a token."""
    removed = service.token_results.delete(token_id)
    return respond(request, "tokens.html.j2", {**_context(request, service), "deleted": removed})


@router.post(PATH + "/sessions/{handle}/end", dependencies=ADMINS_PAGE)
@on_page_threads
def end_session(request: Request, service: ServiceDep, handle: Handle) -> Response:
    """End the session of a browser."""
    del request
    service.page_sessions.end_named(handle)
    return RedirectResponse(PATH, 303)


def _context(request: Request, service: Service) -> dict[str, Any]:
    tokens, own_id = service.tokens.list(), request.scope.get(CALLER_KEY)
    is_first = not tokens and own_id is None
    signed_in: SignedIn | None = request.scope.get(SESSION_KEY)
    return {
        "tokens": tokens,
        "scopes": SCOPES,
        "own_id": own_id,
        "sessions": service.page_sessions.list(),
        "own_session": None if signed_in is None else signed_in.session.handle,
        "is_first": is_first,
        "error": "",
        "given": {"name": "", "scopes": ["admin"] if is_first else ["read", "report"], "has_many_jobs": False},
        "created": None,
        "secret": "",
        "deleted": None,
    }
