# SPDX-License-Identifier: Apache-2.0
"""Headers that every reply has unless its route says otherwise: no guessed type, no copy kept, no plain HTTP."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .request_ids import HEADER, KEY, IdSource

HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}
"""Replies may hold secrets, such as a new token, and figures that are old after a second."""
HSTS = "strict-transport-security"
HSTS_VALUE = "max-age=31536000"
"""A year; hosts below this one may be others'."""


class ReplyHeaders:
    """ASGI middleware: gives each request its id, and each reply that id and the headers that it lacks."""

    def __init__(self, app: ASGIApp, *, ids: IdSource) -> None:
        """Wrap `app`."""
        self._app = app
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[KEY] = self._ids.id_for(scope["headers"])
        added = {**HEADERS, HSTS: HSTS_VALUE} if scope.get("scheme") == "https" else HEADERS

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in added.items():
                    headers.setdefault(name, value)
                headers.append(HEADER.decode(), scope[KEY])
            await send(message)

        await self._app(scope, receive, send_with_headers)


class Heads:
    """ASGI middleware, next to the routes: HEAD is GET without a body, which the server leaves out."""

    def __init__(self, app: ASGIApp, *, lasting: frozenset[str]) -> None:
        """Wrap `app`; `lasting` are the paths whose replies do not end soon, where HEAD stays unknown."""
        self._app = app
        self._lasting = lasting

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on as the routes know it, and note which route it found."""
        if scope["type"] != "http" or scope["method"] != "HEAD" or scope["path"] in self._lasting:
            await self._app(scope, receive, send)
            return
        asked = {**scope, "method": "GET"}
        try:
            await self._app(asked, receive, send)
        finally:
            scope.update({name: asked[name] for name in ("route", "endpoint") if name in asked})
