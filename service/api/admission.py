# SPDX-License-Identifier: Apache-2.0
"""Admission: a limited number of requests at work or waiting for it.

A request takes a place only once everything that needs none has been tried: a cached recommendation is answered however
much there is to do, and a slow body keeps no other request out. Writes always need a place; while none is free they
are refused before their token and their body, which would cost more than the refusal. A request whose token is known
and whose body is there comes to its place before the next one is begun, so that a crowd is not let in as a whole.
"""

from dataclasses import dataclass

from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.errors import Overloaded

from .access import OPEN_PATHS
from .problems import send_problem

API = "/v1/"
READING = frozenset({"GET", "HEAD"})
STREAMS = frozenset({"/v1/events"})
"""Replies that last: they have a bound of their own and take no place. Pages have one more."""


@dataclass
class Admission:
    """The places of an application.

    Attributes:
        places: Number of places.
        taken: Number of requests at work.
        what: Name of the admitted work, for messages.
    """

    places: int
    taken: int = 0
    what: str = "requests"

    @property
    def is_full(self) -> bool:
        """Return whether no place is free."""
        return self.taken >= self.places

    def refusal(self) -> Overloaded:
        """Return the refusal of a request for which no place is free."""
        return Overloaded(f"{self.places} {self.what} are at work; nothing was done with this one; try again")


class LoadShedding:
    """ASGI middleware: refuses writes while no place is free, before any other work is done for them."""

    def __init__(self, app: ASGIApp, *, admission: Admission) -> None:
        """Wrap `app`."""
        self._app = app
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, or answer 503 at once."""
        if scope["type"] == "http" and self._admission.is_full and _is_write(scope):
            await send_problem(self._admission.refusal(), scope, receive, send)
        else:
            await self._app(scope, receive, send)


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


def _is_write(scope: Scope) -> bool:
    """Tell whether a request changes something. One that waits to be asked for its body is left to the gate."""
    is_write = scope["method"] not in READING and scope["path"].startswith(API)
    return is_write and not any(name == b"expect" for name, _ in scope["headers"])
