# SPDX-License-Identifier: Apache-2.0
"""The pages as one thing, which the service is handed: routes, open paths, and the layers before them."""

from collections.abc import Mapping, Sequence
from typing import Any

from anyio import CapacityLimiter
from fastapi import APIRouter
from starlette.requests import Request
from starlette.types import ASGIApp

from ringtune.service.api.browser_sessions import BrowserSessions

from .assets import Assets
from .browser_headers import BrowserHeaders
from .confirming import context_of
from .own_forms import OwnForms
from .paths import EVENTS, SIGN_IN, PagePaths, study_path
from .problem_pages import ProblemPages
from .rendering import Templates
from .sessions import Sessions
from .study_review import StudyReviews
from .views import ROUTERS

THREADS = 4
"""Threads for pages, out of the service's 32, and fewer than the database's connections."""


class WebPages:
    """Pages for `create_app`; see `ringtune.service.api.pages.Pages`.

    Attributes:
        assets: The static files.
        templates: Templates of the pages.
        reviews: Reviews of studies, cached for a while.
        threads: Bounds the threads that make pages.
    """

    def __init__(self) -> None:
        """Read templates and static files."""
        self.assets = Assets()
        self.templates = Templates(self.assets)
        self.reviews = StudyReviews()
        self.threads = CapacityLimiter(THREADS)

    @property
    def open_paths(self) -> frozenset[str]:
        """The sign-in and the static files: no data of any study is in them."""
        return self.assets.urls | {SIGN_IN}

    @property
    def stream_paths(self) -> frozenset[str]:
        """The pages' events."""
        return frozenset({EVENTS})

    @property
    def routers(self) -> Sequence[APIRouter]:
        """One per view."""
        return ROUTERS

    def study_path(self, study_id: str) -> str:
        """Return the path of a study's page."""
        return study_path(study_id)

    def wrap(self, app: ASGIApp, sessions: BrowserSessions) -> ASGIApp:
        """Return the layers before the pages; the first one is met first. Other paths go straight to `app`."""
        signed_in = Sessions(app, sessions, self.open_paths)
        pages = BrowserHeaders(ProblemPages(OwnForms(signed_in), self._problem_page))
        return PagePaths(app, pages)

    def _problem_page(self, request: Request, problem: Mapping[str, Any]) -> str:
        unconfirmed = context_of(request)
        if unconfirmed is not None:
            return self.templates.text("confirm.html.j2", request, {"problem": problem, **unconfirmed})
        return self.templates.text("problem.html.j2", request, {"problem": problem})
