# SPDX-License-Identifier: Apache-2.0
"""An application behind a middleware, and the replies that a browser gets through it."""

import asyncio

from starlette.types import ASGIApp, Receive, Scope, Send

from tests.unit.service.api.asgi import Reply, ask, scope_of


class Inner:
    """An application that remembers the requests that reached it, and answers with some bytes in two parts."""

    def __init__(self, status: int = 200, media_type: bytes = b"text/html") -> None:
        """Answer like this."""
        self.scopes: list[Scope] = []
        self._status = status
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        self.scopes.append(scope)
        headers = [(b"content-type", self._media_type), (b"retry-after", b"3"), (b"www-authenticate", b"Bearer")]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"title": ', "more_body": True})
        await send({"type": "http.response.body", "body": b'"T"}'})


def asked(app: ASGIApp, path: str, *headers: tuple[str, str], method: str = "GET") -> Reply:
    """Return the page that a browser gets."""
    scope = {**scope_of(path, method=method, headers=headers), "scheme": "http", "server": ("127.0.0.1", 80)}
    return asyncio.run(ask(app, scope))
