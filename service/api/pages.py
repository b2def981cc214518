# SPDX-License-Identifier: Apache-2.0
"""The interface of web pages, which the composer of the program may hand over; the service has none."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from fastapi import APIRouter
from starlette.types import ASGIApp

from ringtune.service.domain.overview import Overview
from ringtune.service.domain.whole_tables import WholeTables

from .access import Callers
from .browser_sessions import BrowserSessions


@dataclass(frozen=True)
class PageState:
    """Dependencies of pages besides the API's: `app.state.pages_state`.

    Attributes:
        callers: Finds the holder of a token.
        sessions: Browsers that signed in.
        overview: The overview of studies.
        tables: Whole tables, for download.
    """

    callers: Callers
    sessions: BrowserSessions
    overview: Overview
    tables: WholeTables


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

    def study_path(self, study_id: str) -> str:
        """Return the path of a study's page."""
        ...

    def wrap(self, app: ASGIApp, sessions: BrowserSessions) -> ASGIApp:
        """Return the application behind the pages' own layers, before the checks of permissions.

        Args:
            app: The application that gets the requests.
            sessions: Says whose a cookie is; the answer goes into the scope, under `SESSION_KEY`.
        """
        ...
