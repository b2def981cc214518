# SPDX-License-Identifier: Apache-2.0
"""Admission: a limited number of requests at work or waiting for it.

A request takes a place only once everything that needs none has been tried: a cached recommendation is answered however
much there is to do, and who sends a body slowly keeps nobody out. What writes is never answered without a place; while
none is free the server refuses it where it reads from the connection (`connection`). Many requests are read before
the first of them gets as far as its place, so that those on their way there are counted, too.
"""

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.errors import Overloaded

from .access import OPEN_PATHS
from .peers import peer_of
from .problems import send_problem

STREAMS = frozenset({"/v1/events"})
"""Replies that last: they have a bound of their own and take no place. Pages have one more."""


@dataclass
class Admission:
    """The places of an application.

    Attributes:
        places: Number of places.
        taken: Number of requests at work.
        arriving: Writes that were read from their connections and that nobody has begun to work on.
        what: Name of the admitted work, for messages.
    """

    places: int
    taken: int = 0
    arriving: int = 0
    what: str = "requests"

    @property
    def is_full(self) -> bool:
        """Return whether no place is free."""
        return self.taken >= self.places

    @property
    def has_room(self) -> bool:
        """Return whether one more write would find a place after those that arrive already."""
        return self.taken + self.arriving < self.places

    def refusal(self) -> Overloaded:
        """Return what those are told for whom no place is free."""
        return Overloaded(f"{self.places} {self.what} are at work; nothing was done with this one; try again")


class Arrivals:
    """The server's ASGI wrapper of the application: tells each connection when a request on it begins and ends."""

    def __init__(self, app: ASGIApp) -> None:
        """Wrap `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        peer = peer_of(scope)
        if peer is None:
            await self._app(scope, receive, send)
            return
        peer.begin_request()
        try:
            await self._app(scope, receive, send)
        finally:
            peer.end_request()


class Gate:
    """ASGI middleware: gives each request a place (concurrency limit)."""

    def __init__(self, app: ASGIApp, *, admission: Admission, streams: frozenset[str] = STREAMS) -> None:
        """Let in as many as there are places; `streams` are the paths that need none."""
        self._app = app
        self._admission = admission
        self._free = OPEN_PATHS | streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503 at once; health is always answered."""
        if scope["type"] != "http" or scope["path"] in self._free:
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
