# SPDX-License-Identifier: Apache-2.0
"""Paths of pages and of the API: additions of the pages never reach the latter."""

from starlette.types import ASGIApp, Receive, Scope, Send

from ringtune.service.api.access import OPEN_PATHS

STUDIES = "/studies"
SIGN_IN = "/sign-in"
SIGN_OUT = "/sign-out"
EVENTS = "/events"
"""The pages' own stream of events: a session of a browser opens it, and no path below /v1."""
API_PREFIX = "/v1/"
API_PATHS = OPEN_PATHS | {"/metrics", "/openapi.json", "/v1"}
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class PagePaths:
    """ASGI middleware: requests for pages go one way, all others the other."""

    def __init__(self, others: ASGIApp, pages: ASGIApp) -> None:
        """Send requests for a page's path to `pages`."""
        self._others = others
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on."""
        is_page = scope["type"] == "http" and not is_of_api(scope["path"])
        await (self._pages if is_page else self._others)(scope, receive, send)


def study_path(study_id: str) -> str:
    """Return the path of a study's page."""
    return f"{STUDIES}/{study_id}"


def is_of_api(path: str) -> bool:
    """Tell whether a path is for programs, whatever it leads to."""
    return path in API_PATHS or path.startswith(API_PREFIX)
