# SPDX-License-Identifier: Apache-2.0
"""A name for every request, in the reply's `X-Request-ID` and in the log; a client's own is kept if it is harmless."""

import itertools
import re
import secrets
from collections.abc import Iterable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADER = b"x-request-id"
KEY = "ringtune.request_id"
HARMLESS = re.compile(rb"[A-Za-z0-9._-]{1,64}")


class IdSource:
    """Gives each request of a process its id."""

    def __init__(self) -> None:
        """Begin all ids with something that no other process has."""
        self._prefix = secrets.token_hex(4)
        self._numbers = itertools.count(1)

    def id_for(self, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """Return the id that the client gave, if it is harmless, or the next one."""
        for name, value in headers:
            if name == HEADER and HARMLESS.fullmatch(value):
                return value.decode()
        return f"{self._prefix}-{next(self._numbers):x}"


class RequestIds:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, ids: IdSource) -> None:
        """Wrap `app`."""
        self._app = app
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Give the request its id, and the reply too."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = self._ids.id_for(scope["headers"])
        scope[KEY] = request_id
        header = (HEADER, request_id.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), header]
            await send(message)

        await self._app(scope, receive, send_with_id)


def request_id_of(scope: Scope) -> str:
    """Return the request's id; empty where it has none yet."""
    return str(scope.get(KEY, ""))
