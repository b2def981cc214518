# SPDX-License-Identifier: Apache-2.0
"""What web pages for people have to be, if whoever composes the program hands some over; the service has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fastapi import APIRouter
from starlette.types import ASGIApp

from ringtune.service.domain.overview import Overview

from .access import Callers
from .browser_sessions import BrowserSessions


@dataclass(frozen=True)
class PageState:
    """What pages need besides the API's parts: `app.state.pages_state`.

    Attributes:
        callers: Finds who holds a token.
        sessions: Browsers that signed in.
        overview: What people look through.
    """

    callers: Callers
    sessions: BrowserSessions
    overview: Overview


class Pages(Protocol):
    """Pages, which install themselves: `app.state.pages`."""

    @property
    def open_paths(self) -> frozenset[str]:
        """Whole paths that need no token."""
        ...

    @property
    def stream_paths(self) -> frozenset[str]:
        """Whole paths of replies that last; they count among the listeners to the events."""
        ...

    @property
    def routers(self) -> Sequence[APIRouter]:
        """The routes; each declares the scope that it needs."""
        ...

    def wrap(self, app: ASGIApp, sessions: BrowserSessions) -> ASGIApp:
        """Return what stands before everything else, the checks of who may included.

        Args:
            app: What the requests go to.
            sessions: Says whose a cookie is; the answer goes into the scope, under `SESSION_KEY`.
        """
        ...
