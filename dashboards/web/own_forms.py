# SPDX-License-Identifier: Apache-2.0
"""A form is taken from pages of this service alone: the Origin that browsers send must be the address that was asked.

This refuses other sites and other ports before anything is read. A program that has a stolen cookie sends what it
likes: against it every form needs a key as well (`confirming`).
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.api.problems import send_problem
from ringtune.service.errors import Forbidden

from .paths import SAFE_METHODS


class OwnForms:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 403."""
        if scope["method"] in SAFE_METHODS or is_own_form(Headers(scope=scope)):
            await self._app(scope, receive, send)
            return
        detail = "the form was not sent from a page of this service; open its page here, and send it again"
        await send_problem(Forbidden(detail), scope, receive, send)


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
