# SPDX-License-Identifier: Apache-2.0
"""Signing in with a token, and out."""

from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Query
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ringtune.dashboards.web.confirming import FORM_KEY
from ringtune.dashboards.web.forms import field_of
from ringtune.dashboards.web.paths import SIGN_IN, SIGN_OUT
from ringtune.dashboards.web.problem_pages import MAX_ADDRESS
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.session_cookie import forget_session, keep_session, session_id_of
from ringtune.service.api.access import Caller, Callers
from ringtune.service.api.authorization import ADMIN
from ringtune.service.api.dependencies import StateDep
from ringtune.service.domain.page_sessions import new_secret
from ringtune.service.errors import Unauthenticated, UnknownHost

from .dependencies import READERS_PAGE, CallersDep, FormDep, SessionsDep, Text, new_router

START = "/studies"
READ = "read"

router = new_router()


@router.get(SIGN_IN)
async def sign_in(
    request: Request,
    callers: CallersDep,
    next: Annotated[str, Query(max_length=MAX_ADDRESS)] = START,  # noqa: A002
    ended: Text = "",
) -> Response:
    """Ask for a token; where none is needed, lead on."""
    if await _is_open(request, callers):
        return RedirectResponse(own_path(next), 303)
    return _form(request, own_path(next), is_ended=bool(ended))


@router.post(SIGN_IN)
async def sign_in_with(
    request: Request, state: StateDep, callers: CallersDep, sessions: SessionsDep, fields: FormDep
) -> Response:
    """Take a token and, if it may read, begin a session; one that the browser had ends."""
    secret, wanted = field_of(fields, "token"), own_path("".join(fields.get("next", [])))
    try:
        caller = await _caller(request, secret, callers)
    except Unauthenticated:
        error = (
            "This token is not known, or was revoked. Check that all of it was copied, or ask an operator for another."
        )
        return _form(request, wanted, error=error, status=401)
    if not caller.scopes & {READ, ADMIN}:
        error = "This token may report, but not read. Ask an operator for one with the scope read."
        return _form(request, wanted, error=error, status=403)
    before = session_id_of(request)
    if before is not None:
        await sessions.end(before)
    session_id = await sessions.begin(caller, secret, field_of(fields, FORM_KEY))
    reply = RedirectResponse(wanted, 303)
    keep_session(reply, request, session_id, state.service.page_sessions.max_age_s)
    return reply


@router.post(SIGN_OUT, dependencies=READERS_PAGE)
async def sign_out(request: Request, sessions: SessionsDep) -> Response:
    """End the session, here and for whoever else has its id."""
    session_id = session_id_of(request)
    if session_id is not None:
        await sessions.end(session_id)
    reply = RedirectResponse(SIGN_IN, 303)
    forget_session(reply, request)
    return reply


def own_path(wanted: str) -> str:
    """Return a path of ours to go on to: whatever would lead elsewhere leads to the start."""
    try:
        parts = urlsplit(wanted.replace("\\", "/"))
    except ValueError:
        return START
    is_ours = not parts.scheme and not parts.netloc and wanted.startswith("/") and not wanted.startswith("//")
    return wanted if is_ours and wanted.isprintable() and parts.path != SIGN_IN else START


async def _is_open(request: Request, callers: Callers) -> bool:
    """Tell whether this service needs no token from whoever asks."""
    headers = Headers(scope=request.scope)
    known = {name.encode(): headers[name].encode("latin-1") for name in ("host", "origin") if name in headers}
    try:
        await callers.find(known)
    except (Unauthenticated, UnknownHost):
        return False
    return True


async def _caller(request: Request, secret: str, callers: Callers) -> Caller:
    if not secret.isascii() or not secret.isprintable():
        raise Unauthenticated("a token has printable ASCII characters alone")
    return await callers.find_from(request.scope, {b"authorization": f"Bearer {secret}".encode()})


def _form(request: Request, wanted: str, *, is_ended: bool = False, error: str = "", status: int = 200) -> Response:
    """Return the page that asks for a token, with a new form key that becomes the session's."""
    context = {"wanted": wanted, "is_ended": is_ended, "error": error, "form_key": new_secret()}
    return respond(request, "sign_in.html.j2", context, status)
