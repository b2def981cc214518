# SPDX-License-Identifier: Apache-2.0
"""Errors as people can read them: whatever the service answers a browser as a problem becomes a page.

The exception handlers of FastAPI would not do: middlewares answer with problems, too.
"""

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ringtune.service.api.problems import MEDIA_TYPE

from .paths import SAFE_METHODS, SIGN_IN
from .session_cookie import forget_session, session_id_of

MAX_ADDRESS = 4000
"""Characters of the address to come back to after a sign-in: more than any page of ours has."""
DROPPED = frozenset({"content-type", "content-length", "www-authenticate"})
"""Headers of a problem that its page does not have."""
RenderProblem = Callable[[Request, dict[str, Any]], str]
"""Gets the request and the problem as JSON has it, and returns a page."""


class ProblemPages:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, render_problem: RenderProblem) -> None:
        """Wrap `app`."""
        self._app = app
        self._render_problem = render_problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; a problem comes back as a page where one was asked for."""
        if "text/html" not in Headers(scope=scope).get("accept", ""):
            await self._app(scope, receive, send)
            return
        problem: dict[str, Any] = {}

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.start":
                if Headers(raw=message["headers"]).get("content-type") == MEDIA_TYPE:
                    problem.update(start=message, body=b"")
                    return
            elif problem:
                problem["body"] += message.get("body", b"")
                if not message.get("more_body", False):
                    reply = self._page_of(Request(scope), problem["start"], problem["body"])
                    await reply(scope, receive, send)
                return
            await send(message)

        await self._app(scope, receive, sending)

    def _page_of(self, request: Request, start: Message, body: bytes) -> Response:
        """Return a problem as a page; a browser that is not known, or no longer, is sent to the sign-in."""
        if start["status"] == 401 and request.method in SAFE_METHODS:
            is_ended = session_id_of(request) is not None
            reply: Response = RedirectResponse(sign_in_url(request, is_ended=is_ended), 303)
            if is_ended:
                forget_session(reply, request)
        else:
            reply = HTMLResponse(self._render_problem(request, json.loads(body)), start["status"])
        for name, value in MutableHeaders(scope=start).items():
            if name not in DROPPED:
                reply.headers.setdefault(name, value)
        return reply


def sign_in_url(request: Request, *, is_ended: bool) -> str:
    """Return where to sign in, and to come back from; an address that is too long for that is forgotten."""
    path = request.url.path
    wanted = path if path != "/" and not request.url.query else f"{path}?{request.url.query}".removesuffix("?")
    wanted = wanted if len(wanted) <= MAX_ADDRESS else "/"
    return f"{SIGN_IN}?next={quote(wanted, safe='')}{'&ended=1' if is_ended else ''}"
