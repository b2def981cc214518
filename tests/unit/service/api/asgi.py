# SPDX-License-Identifier: Apache-2.0
"""Speaking ASGI to a middleware: one request in, its answer out."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send


@dataclass
class Reply:
    """The application's answer."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def problem(self) -> dict[str, Any]:
        """The body, as an error has it."""
        assert "application/problem+json" == self.headers["content-type"]
        value: dict[str, Any] = json.loads(self.body)
        return value


def scope_of(
    path: str = "/v1/studies", *, method: str = "GET", headers: Iterable[tuple[str, str]] = (), query: str = ""
) -> dict[str, Any]:
    """Return the scope of a request."""
    return {
        "type": "http",
        "method": method,
        "path": path,
        "query_string": query.encode(),
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }


async def ask(app: ASGIApp, scope: Scope, parts: Iterable[bytes] = ()) -> Reply:
    """Send a request whose body comes in parts; the client goes away after the last one that is given as b"!"."""
    waiting = list(parts)
    reply = Reply()

    async def receive() -> Message:
        if not waiting:
            return {"type": "http.request", "body": b"", "more_body": False}
        part = waiting.pop(0)
        if part == b"!":
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": part, "more_body": bool(waiting)}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            reply.status = message["status"]
            reply.headers = {name.decode(): value.decode() for name, value in message.get("headers", ())}
        else:
            reply.body += message.get("body", b"")

    await app(scope, receive, send)
    return reply


async def echo(_scope: Scope, receive: Receive, send: Send) -> None:
    """Answer 200 with the request's body: the application behind the middleware."""
    message = await receive()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": message.get("body", b"")})
