# SPDX-License-Identifier: Apache-2.0
"""Problems become pages where a page was asked for, and headers that protect it are added."""

import pytest

from ringtune.dashboards.web.browser_headers import HEADERS, BrowserHeaders
from ringtune.dashboards.web.problem_pages import ProblemPages
from ringtune.dashboards.web.session_cookie import NAME
from tests.unit.dashboards.web.answering import Inner, asked
from tests.unit.service.api.asgi import Reply

PAGE = ("accept", "text/html")


def problem(status: int, *headers: tuple[str, str], path: str = "/studies", method: str = "GET") -> Reply:
    """Return the reply that a problem becomes."""
    app = ProblemPages(Inner(status, b"application/problem+json"), lambda _request, told: f"page of {told['title']}")
    return asked(app, path, *headers, method=method)


def test_a_problem_is_a_page_where_one_was_asked_for() -> None:
    """The page has the problem's status and its other headers; programs get the problem as it is."""
    page, data = problem(503, PAGE), problem(503, ("accept", "application/json"))

    assert (503, b"page of T", "3") == (page.status, page.body, page.headers["retry-after"])
    assert "text/html; charset=utf-8" == page.headers["content-type"]
    assert "www-authenticate" not in page.headers
    assert (503, b'{"title": "T"}') == (data.status, data.body)


@pytest.mark.parametrize("cookie", [True, False])
def test_who_is_not_known_is_led_to_the_sign_in(cookie: bool) -> None:
    """A session that ended is forgotten; a form is not repeated behind a sign-in."""
    sent = (PAGE, ("cookie", f"{NAME}=x")) if cookie else (PAGE,)

    reply, form = problem(401, *sent), problem(401, *sent, method="POST")

    assert (303, f"/sign-in?next=%2Fstudies{'&ended=1' if cookie else ''}") == (reply.status, reply.headers["location"])
    assert cookie == ("Max-Age=0" in reply.headers.get("set-cookie", ""))
    assert (401, b"page of T") == (form.status, form.body)


def test_what_is_no_problem_is_left_alone() -> None:
    """Part by part, whatever its status."""
    reply = asked(ProblemPages(Inner(404), lambda _request, _problem: "never"), "/studies", PAGE)

    assert (404, b'{"title": "T"}') == (reply.status, reply.body)


def test_every_reply_to_a_browser_has_the_headers() -> None:
    """Problems and pages have them alike; a header that the reply sets itself is kept."""

    async def kept(scope: object, receive: object, send: object) -> None:
        del scope, receive
        start = {"type": "http.response.start", "status": 200, "headers": [(b"cache-control", b"public")]}
        await send(start)  # type: ignore[operator]

    plain = asked(BrowserHeaders(Inner()), "/studies")
    public = asked(BrowserHeaders(kept), "/studies")

    assert HEADERS == {name: plain.headers[name] for name in HEADERS}
    assert "public" == public.headers["cache-control"]
    assert "default-src 'none'" in public.headers["content-security-policy"]
