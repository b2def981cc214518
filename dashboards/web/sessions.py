# SPDX-License-Identifier: Apache-2.0
"""A cookie's session becomes the caller, on the pages' paths; the service's own checks of scopes follow."""

from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.api.access import let_in
from ringtune.service.api.authorization import SESSION_KEY
from ringtune.service.api.browser_sessions import BrowserSessions
from ringtune.service.api.problems import send_problem
from ringtune.service.errors import ServiceError

from .session_cookie import session_id_of


class Sessions:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, sessions: BrowserSessions, open_paths: frozenset[str]) -> None:
        """Wrap `app`; sessions are not looked up for `open_paths`."""
        self._app = app
        self._sessions = sessions
        self._open_paths = open_paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on with its session; a token that was sent holds before a cookie."""
        connection = HTTPConnection(scope)
        session_id = session_id_of(connection)
        is_asked = scope["path"] not in self._open_paths and "authorization" not in connection.headers
        if is_asked and session_id is not None:
            try:
                signed_in = await self._sessions.find(session_id)
                if signed_in is not None:
                    let_in(scope, signed_in.caller)
                    scope[SESSION_KEY] = signed_in
            except ServiceError as error:
                await send_problem(error, scope, receive, send)
                return
        await self._app(scope, receive, send)
