# SPDX-License-Identifier: Apache-2.0
"""Signing in with a token, and out."""

import time
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Query
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from ringtune.dashboards.web.browsers import MAX_ADDRESS, SIGN_IN, is_secure
from ringtune.dashboards.web.rendering import respond
from ringtune.dashboards.web.sign_ins import sealed, set_cookie
from ringtune.service.api.access import ADMIN, Caller, Callers, needs
from ringtune.service.errors import Unauthenticated, UnknownHost

from .parts import CallersDep, Text, form_of, new_router

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
    context = {"wanted": own_path(next), "is_ended": bool(ended), "error": ""}
    return respond(request, "sign_in.html.j2", context)


@router.post(SIGN_IN)
async def sign_in_with(request: Request, callers: CallersDep) -> Response:
    """Take a token and, if it may read, keep it in the browser."""
    fields = await form_of(request)
    secret = "".join(fields.get("token", [])).strip()
    wanted = own_path("".join(fields.get("next", [])))
    try:
        caller = await _caller(secret, callers)
    except Unauthenticated:
        error = (
            "This token is not known, or was revoked. Check that all of it was copied, or ask an operator for another."
        )
        return respond(request, "sign_in.html.j2", {"wanted": wanted, "is_ended": False, "error": error}, 401)
    if not caller.scopes & {READ, ADMIN}:
        error = "This token may report, but not read. Ask an operator for one with the scope read."
        return respond(request, "sign_in.html.j2", {"wanted": wanted, "is_ended": False, "error": error}, 403)
    reply = RedirectResponse(wanted, 303)
    reply.headers.append("set-cookie", set_cookie(sealed(secret, time.time()), is_secure=is_secure(request)))
    return reply


@router.post("/sign-out", openapi_extra=needs(READ))
async def sign_out(request: Request) -> Response:
    """Forget the token in this browser."""
    reply = RedirectResponse(SIGN_IN, 303)
    reply.headers.append("set-cookie", set_cookie("", is_secure=is_secure(request)))
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


async def _caller(secret: str, callers: Callers) -> Caller:
    if not secret.isascii() or not secret.isprintable():
        raise Unauthenticated("a token has printable ASCII characters alone")
    return await callers.find({b"authorization": f"Bearer {secret}".encode()})
