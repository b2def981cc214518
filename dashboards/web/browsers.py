# SPDX-License-Identifier: Apache-2.0
"""What stands between browsers and the pages: sign-ins, forged forms, headers, and errors that people can read.

It stands before the service's own checks and replaces none of them. On a page's path the cookie of a sign-in becomes
the bearer token that the checks know; on the API's paths it means nothing, but for the events, which are read only. A
form is taken only from a page of ours: the cookie is SameSite=Strict, and the Origin that browsers send must be the
address that was asked.
"""

import json
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import quote, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ringtune.service.api.access import OPEN_PATHS
from ringtune.service.api.problems import MEDIA_TYPE, problem_response
from ringtune.service.api.request_ids import request_id_of
from ringtune.service.errors import Forbidden

from .sign_ins import cookie_value, opened, set_cookie

SIGN_IN = "/sign-in"
MAX_ADDRESS = 4000
"""Of the page to come back to after a sign-in: longer than any page of ours has, whatever somebody searches for."""
EVENTS = "/v1/events"
API_PREFIX = "/v1/"
API_PATHS = OPEN_PATHS | {"/metrics", "/openapi.json", "/v1"}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
EMPTY_STYLE = "'unsafe-hashes' 'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Allows the style attribute that is empty, which Plotly gives the colours of a scale, and no other."""
POLICY = (
    f"default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr {EMPTY_STYLE}; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
RenderProblem = Callable[[Request, dict[str, Any]], str]
"""Gets the request and the problem as JSON has it, and returns a page."""


class Browsers:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, render_problem: RenderProblem, clock: Callable[[], float] = time.time) -> None:
        """Wrap `app`; `clock` is seconds since 1970."""
        self._app = app
        self._render_problem = render_problem
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as the service knows it, and its reply back as a browser should see it."""
        if scope["type"] != "http" or (is_of_api(scope["path"]) and not _asks_for_events(scope)):
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        cookie = cookie_value(headers.get("cookie", ""))
        secret = None if cookie is None else opened(cookie, self._clock())
        if secret is not None and "authorization" not in headers:
            scope["headers"] = [*scope["headers"], (b"authorization", f"Bearer {secret}".encode())]
        if is_of_api(scope["path"]):
            await self._app(scope, receive, send)
            return
        if scope["method"] not in SAFE_METHODS and not is_own_form(headers):
            detail = "the form was not sent from a page of this service; open its page here, and send it again"
            refusal = problem_response(Forbidden(detail), request_id_of(scope))
            await refusal(scope, receive, self._for_people(scope, receive, send, has_cookie=cookie is not None))
            return
        await self._app(scope, receive, self._for_people(scope, receive, send, has_cookie=cookie is not None))

    def _for_people(self, scope: Scope, receive: Receive, send: Send, *, has_cookie: bool) -> Send:
        """Return a `send` that adds the headers, and turns problems into pages where a page was asked for."""
        problem: dict[str, Any] = {}
        wants_page = "text/html" in Headers(scope=scope).get("accept", "")

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if not headers.get("cache-control"):
                    headers["cache-control"] = "no-store"
                if wants_page and headers.get("content-type") == MEDIA_TYPE:
                    problem.update(start=message, body=b"")
                    return
            elif problem:
                problem["body"] += message.get("body", b"")
                if not message.get("more_body", False):
                    reply = self._page_of(scope, problem["start"], problem["body"], has_cookie=has_cookie)
                    await reply(scope, receive, send)
                return
            await send(message)

        return sending

    def _page_of(self, scope: Scope, start: Message, body: bytes, *, has_cookie: bool) -> Response:
        """Return a problem as a page; who is not known, or no longer, is sent to the sign-in."""
        request = Request(scope)
        if start["status"] == 401 and scope["method"] in SAFE_METHODS:
            reply: Response = RedirectResponse(sign_in_url(request, is_ended=has_cookie), 303)
            if has_cookie:
                reply.headers.append("set-cookie", set_cookie("", is_secure=is_secure(request)))
        else:
            reply = HTMLResponse(self._render_problem(request, json.loads(body)), start["status"])
        for name, value in MutableHeaders(scope=start).items():
            if name not in {"content-type", "content-length", "www-authenticate"}:
                reply.headers.setdefault(name, value)
        return reply


def is_of_api(path: str) -> bool:
    """Tell whether a path is for programs, whatever it leads to."""
    return path in API_PATHS or path.startswith(API_PREFIX)


def is_own_form(headers: Headers) -> bool:
    """Tell whether a browser says that the request comes from a page of the address that was asked."""
    origin = headers.get("origin")
    if origin is None:
        return headers.get("sec-fetch-site") == "same-origin"
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    return parts.scheme in {"http", "https"} and parts.netloc != "" and parts.netloc == headers.get("host")


def is_secure(request: Request) -> bool:
    """Tell whether the browser's connection is encrypted, by us or by a proxy that says so."""
    return request.url.scheme == "https" or request.headers.get("x-forwarded-proto", "").strip() == "https"


def sign_in_url(request: Request, *, is_ended: bool) -> str:
    """Return where to sign in, and to come back from; an address that is too long for that is forgotten."""
    path = request.url.path
    wanted = path if path != "/" and not request.url.query else f"{path}?{request.url.query}".removesuffix("?")
    wanted = wanted if len(wanted) <= MAX_ADDRESS else "/"
    return f"{SIGN_IN}?next={quote(wanted, safe='')}{'&ended=1' if is_ended else ''}"


def _asks_for_events(scope: Scope) -> bool:
    return bool(scope["path"] == EVENTS and scope["method"] == "GET")
