# SPDX-License-Identifier: Apache-2.0
"""Shared parts of the views: the service behind them, and the manner of their routes."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial, wraps
from typing import Annotated, Any, TypeAlias

from anyio import to_thread
from fastapi import APIRouter, Depends, Query, Security
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from ringtune.dashboards.web.confirming import confirmed
from ringtune.dashboards.web.forms import Fields, form_of
from ringtune.dashboards.web.study_review import StudyReviews
from ringtune.service.api.access import Callers
from ringtune.service.api.authorization import ADMIN, READ, authorize_page
from ringtune.service.api.browser_sessions import BrowserSessions
from ringtune.service.domain.overview import Overview, Wanted
from ringtune.service.domain.whole_tables import WholeTables
from ringtune.service.errors import InvalidRequest

DEFAULT_SORT = "created"
MAX_TEXT = 200

Text: TypeAlias = Annotated[str, Query(max_length=MAX_TEXT)]
PageNumber: TypeAlias = Annotated[int, Query(ge=1, le=1_000_000)]


View = Callable[..., Response]


def on_page_threads(view: View) -> Callable[..., Coroutine[Any, Any, Response]]:
    """Return a view that waits for one of the few threads that pages have: they take none from jobs that report.

    Args:
        view: Takes its `request` by name; may read the database, and take its time.
    """

    @wraps(view)
    async def run(**arguments: Any) -> Response:
        request: Request = arguments["request"]
        if any("\0" in text for text in (*request.path_params.values(), *request.query_params.values())):
            raise InvalidRequest("the address has a NUL character, which no name has; leave it out")
        threads = request.app.state.pages.threads
        return await to_thread.run_sync(partial(view, **arguments), limiter=threads)

    return run


@dataclass(frozen=True)
class AskedStudies:
    """The studies that a list's address asks for: the fields of its form, and their order."""

    q: str
    target: str
    finding: str
    model: str
    hardware: str
    sort: str

    @property
    def wanted(self) -> Wanted:
        """Return the filter in the form that the domain takes."""
        named = (self.target or None, self.model or None, self.hardware or None, self.finding or None)
        return Wanted(self.q.strip(), *named)

    @property
    def order(self) -> str:
        """The order, also where the form leaves it empty."""
        return self.sort or DEFAULT_SORT


READERS_PAGE, ADMINS_PAGE = ((Security(authorize_page, scopes=[scope]), Depends(confirmed)) for scope in (READ, ADMIN))
"""Dependencies of a page, by the scope that it needs. A form is confirmed once its sender is authorized."""


def new_router() -> APIRouter:
    """Return a router for pages, which are no part of the API's description."""
    return APIRouter(include_in_schema=False, default_response_class=HTMLResponse)


async def _overview_of(request: Request) -> Overview:
    overview: Overview = request.app.state.pages_state.overview
    return overview


async def _tables_of(request: Request) -> WholeTables:
    tables: WholeTables = request.app.state.pages_state.tables
    return tables


async def _reviews_of(request: Request) -> StudyReviews:
    reviews: StudyReviews = request.app.state.pages.reviews
    return reviews


async def _callers_of(request: Request) -> Callers:
    callers: Callers = request.app.state.pages_state.callers
    return callers


async def _sessions_of(request: Request) -> BrowserSessions:
    sessions: BrowserSessions = request.app.state.pages_state.sessions
    return sessions


async def _asked_studies_of(
    *,
    q: Text = "",
    target: Text = "",
    finding: Text = "",
    model: Text = "",
    hardware: Text = "",
    sort: Text = DEFAULT_SORT,
) -> AskedStudies:
    return AskedStudies(q, target, finding, model, hardware, sort)


AskedStudiesDep = Annotated[AskedStudies, Depends(_asked_studies_of)]
OverviewDep = Annotated[Overview, Depends(_overview_of)]
TablesDep = Annotated[WholeTables, Depends(_tables_of)]
ReviewsDep = Annotated[StudyReviews, Depends(_reviews_of)]
CallersDep = Annotated[Callers, Depends(_callers_of)]
SessionsDep = Annotated[BrowserSessions, Depends(_sessions_of)]
FormDep = Annotated[Fields, Depends(form_of)]


def pages_of(total: int, page: int, limit: int) -> dict[str, Any]:
    """Return the parts of a template that names the shown things of how many, and leads to the others."""
    last = max(1, -(-total // limit))
    return {
        "page": page,
        "last": last,
        "first_item": min((page - 1) * limit + 1, total),
        "last_item": min(page * limit, total),
        "total": total,
    }
