# SPDX-License-Identifier: Apache-2.0
"""What stands between browsers and the service, by itself."""

import asyncio
from typing import Any

import pytest
from starlette.datastructures import Headers
from starlette.types import Receive, Scope, Send

from ringtune.dashboards.web.browsers import Browsers, is_of_api, is_own_form
from ringtune.dashboards.web.rendering import link
from ringtune.dashboards.web.sign_ins import COOKIE, sealed
from ringtune.dashboards.web.views.sign_in import own_path
from tests.unit.service.api.asgi import Reply, ask, scope_of

NOW = 1.7e9
SIGNED_IN = ("cookie", f"{COOKIE}={sealed('a-secret', NOW)}")


class Inner:
    """An application that remembers what reached it, and answers with some bytes in two parts."""

    def __init__(self, status: int = 200, media_type: bytes = b"text/html") -> None:
        """Answer like this."""
        self.scopes: list[Scope] = []
        self._status = status
        self._media_type = media_type

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer."""
        self.scopes.append(scope)
        headers = [(b"content-type", self._media_type), (b"retry-after", b"3")]
        await send({"type": "http.response.start", "status": self._status, "headers": headers})
        await send({"type": "http.response.body", "body": b'{"title": ', "more_body": True})
        await send({"type": "http.response.body", "body": b'"T"}'})


def asked(inner: Inner, path: str, *headers: tuple[str, str], method: str = "GET") -> Reply:
    """Return what a browser gets."""
    app = Browsers(inner, lambda _request, problem: f"page of {problem['title']}", clock=lambda: NOW)
    scope = {**scope_of(path, method=method, headers=headers), "scheme": "http", "server": ("127.0.0.1", 80)}
    return asyncio.run(ask(app, scope))


def authorization(inner: Inner) -> str | None:
    """Return the header that reached the application."""
    return Headers(scope=inner.scopes[-1]).get("authorization")


@pytest.mark.parametrize("path", ["/studies", "/nowhere", "/v1/events"])
def test_a_sign_in_becomes_a_bearer_token(path: str) -> None:
    """On pages' paths, and for the events."""
    inner = Inner()

    asked(inner, path, SIGNED_IN)

    assert "Bearer a-secret" == authorization(inner)


@pytest.mark.parametrize("path", ["/v1/studies", "/metrics", "/openapi.json", "/healthz", "/v1/events/x"])
def test_on_the_api_s_paths_a_sign_in_is_nothing(path: str) -> None:
    """So no page, ours included, writes by a cookie what the API takes; replies are left as they are."""
    inner = Inner()

    reply = asked(inner, path, SIGNED_IN)

    assert authorization(inner) is None
    assert "content-security-policy" not in reply.headers


def test_a_token_that_was_sent_holds_before_a_cookie() -> None:
    """Whoever sends one means it."""
    inner = Inner()

    asked(inner, "/studies", SIGNED_IN, ("authorization", "Bearer other"))

    assert "Bearer other" == authorization(inner)


def test_a_problem_is_a_page_where_one_was_asked_for() -> None:
    """With its status and its other headers, and with the policy."""
    problem = Inner(503, b"application/problem+json")

    page = asked(problem, "/studies", ("accept", "text/html"))
    data = asked(problem, "/studies", ("accept", "application/json"))

    assert (503, b"page of T", "3") == (page.status, page.body, page.headers["retry-after"])
    assert b'{"title": "T"}' == data.body
    assert "default-src 'none'" in page.headers["content-security-policy"]


def test_a_form_of_another_site_reaches_nothing() -> None:
    """It is refused before anything of it is read."""
    inner = Inner()

    reply = asked(inner, "/tokens", SIGNED_IN, ("host", "h"), ("origin", "http://other"), method="POST")

    assert (403, []) == (reply.status, inner.scopes)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"host": "h:1", "origin": "http://h:1"}, True),
        ({"host": "h", "origin": "https://h"}, True),
        ({"host": "h", "sec-fetch-site": "same-origin"}, True),
        ({"host": "h", "origin": "http://h.evil"}, False),
        ({"host": "h:1", "origin": "http://h"}, False),
        ({"host": "h", "origin": "null", "sec-fetch-site": "same-origin"}, False),
        ({"host": "", "origin": "http://"}, False),
        ({"origin": "file://"}, False),
        ({"host": "h"}, False),
    ],
)
def test_a_form_is_ours_if_its_origin_is_the_address_that_was_asked(headers: dict[str, Any], expected: bool) -> None:
    """Port and all; without an origin the browser's own word for it counts."""
    assert expected is is_own_form(Headers(headers))


def test_paths_are_the_api_s_whatever_they_lead_to() -> None:
    """And everything else is a page's."""
    assert [True, True, True, False, False] == [
        is_of_api(path) for path in ("/v1/nothing", "/healthz", "/v1", "/v10", "/")
    ]


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("/studies?q=a", "/studies?q=a"),
        ("/recommendations?model=%2F%2Fx", "/recommendations?model=%2F%2Fx"),
        ("//evil", "/studies"),
        ("/\t/evil", "/studies"),
        ("/\\evil", "/studies"),
        ("http://evil", "/studies"),
        ("studies", "/studies"),
        ("/sign-in?next=/x", "/studies"),
        ("//[", "/studies"),
        ("/\\[", "/studies"),
        ("//\u2100", "/studies"),
    ],
)
def test_after_a_sign_in_only_a_path_of_ours_comes(wanted: str, expected: str) -> None:
    """Whatever a browser could take for another host leads to the start."""
    assert expected == own_path(wanted)


def test_links_have_the_parameters_that_are_set() -> None:
    """Escaped, lists several times."""
    assert "/x?a=1%262&b=c&b=d" == link("/x", {"a": "1&2", "empty": "", "none": None}, b=["c", "d"])
    assert "/x" == link("/x", {"a": "1"}, a="")
