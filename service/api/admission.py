# SPDX-License-Identifier: Apache-2.0
"""So many requests at work or waiting for it, and no more; refusing the others costs little of what those need.

A request takes a place only once everything that needs none has been tried: a cached recommendation is answered however
much there is to do. What writes is never answered without a place, and is refused before its token, its body and its
rate are looked at, which cost several times as much as the refusal.
"""

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.errors import Overloaded

from .access import OPEN_PATHS
from .problems import send_problem

API = "/v1/"
STREAMS = frozenset({"/v1/events"})
"""Replies that last: they have a bound of their own and take no place."""
READING = frozenset({"GET", "HEAD"})


@dataclass
class Admission:
    """The places of an application.

    Attributes:
        places: How many there are.
        taken: How many have a request at work.
    """

    places: int
    taken: int = 0

    @property
    def is_full(self) -> bool:
        """Whether no place is free."""
        return self.taken >= self.places

    def refusal(self) -> Overloaded:
        """Return what those are told for whom no place is free."""
        return Overloaded(f"{self.taken} requests are at work; nothing was done with this one; try again")


class Gate:
    """ASGI middleware, the last one: gives each request a place."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        """Let in as many as there are places."""
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503 at once; health is always answered."""
        if scope["type"] != "http" or scope["path"] in OPEN_PATHS or scope["path"] in STREAMS:
            await self._app(scope, receive, send)
            return
        if self._admission.is_full:
            await send_problem(self._admission.refusal(), scope, receive, send)
            return
        self._admission.taken += 1
        try:
            await self._app(scope, receive, send)
        finally:
            self._admission.taken -= 1


class EarlyRefusal:
    """ASGI middleware, before all that costs: refuses writes while no place is free."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        """Wrap `app`."""
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503 with its body unread."""
        if self._admission.is_full and _is_write(scope):
            await send_problem(self._admission.refusal(), scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _is_write(scope: Scope) -> bool:
    return scope["type"] == "http" and scope["method"] not in READING and scope["path"].startswith(API)
