# SPDX-License-Identifier: Apache-2.0
"""The order of the layers before the routes: each two neighbours have a probe that fails when they are swapped."""

import asyncio
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient
from starlette.types import Message

from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET, bearer
from tests.contract.web.applications import application_with_pages
from tests.unit.service.api.asgi import scope_of

HERE = "http://127.0.0.1"
READER, OPERATOR = bearer(READ_SECRET), bearer(ADMIN_SECRET)
QUERY = f"/v1/recommendations?model_fingerprint={'b' * 64}&world_size=2"


def client_of(app: FastAPI) -> TestClient:
    """Return a client of an application, which sees its replies to its bugs, too."""
    return TestClient(app, base_url=HERE, follow_redirects=False, raise_server_exceptions=False)


def layers_of(app: FastAPI) -> list[str]:
    """Return the names of an application's middlewares, the outermost first."""
    return [getattr(layer.cls, "__name__") for layer in app.user_middleware]  # noqa: B009  (a protocol without a name)


def pages_refusal_has_an_id(app: FastAPI) -> None:
    """A form of another origin is refused by the pages' own layer; the reply has its id."""
    with client_of(app) as client:
        reply = client.post("/tokens", headers={"Origin": "http://evil.example", **OPERATOR})

    assert (403, True) == (reply.status_code, "x-request-id" in reply.headers)


def bug_of_a_page_is_a_page(app: FastAPI) -> None:
    """A page with a bug is answered by a page that says so."""

    @app.get("/broken")
    def broken() -> None:
        raise ZeroDivisionError

    with client_of(app) as client:
        reply = client.get("/broken", headers={"Accept": "text/html", **OPERATOR})

    assert (500, "text/html") == (reply.status_code, reply.headers["content-type"].partition(";")[0])


def shed_write_is_counted(app: FastAPI) -> None:
    """A write without a place is in the metrics."""
    with client_of(app) as client:
        app.state.service_state.admission.taken = app.state.service_state.admission.places
        client.post("/v1/studies", headers=OPERATOR)

        assert 'method="POST",route="unknown",status="503"' in app.state.service_state.metrics.text().decode()


def token_of_a_shed_write_is_not_looked_at(app: FastAPI) -> None:
    """A write without a place and without a token is told of the place."""
    with client_of(app) as client:
        app.state.service_state.admission.taken = app.state.service_state.admission.places

        assert 503 == client.post("/v1/studies").status_code


def token_is_limited(app: FastAPI) -> None:
    """A token that asks too often has to wait."""
    with client_of(app) as client:
        assert [200, 429] == [client.get("/v1/studies", headers=READER).status_code for _ in range(2)]


def cached_reply_is_limited(app: FastAPI) -> None:
    """A reply from the cache counts for the rate of its token."""
    with client_of(app) as client:
        assert [200, 429] == [client.get(QUERY, headers=READER).status_code for _ in range(2)]


def cached_reply_reads_no_body(app: FastAPI) -> None:
    """A body that would be refused is not looked at where the cache answers."""
    body = {"Content-Encoding": "gzip", **READER}
    with client_of(app) as client:
        assert 415 == client.request("GET", QUERY, content=b"x", headers=body).status_code
        client.get(QUERY, headers=READER)

        assert 200 == client.request("GET", QUERY, content=b"x", headers=body).status_code


def slow_body_takes_no_place(app: FastAPI) -> None:
    """No other request is kept out while a body is on its way."""
    taken: list[int] = []

    async def receive() -> Message:
        taken.append(app.state.service_state.admission.taken)
        return {"type": "http.request", "body": b"{}", "more_body": False}

    async def send(message: Message) -> None:
        del message

    headers = [("authorization", f"Bearer {ADMIN_SECRET}"), ("content-length", "2")]
    with client_of(app):
        asyncio.run(app(scope_of("/v1/studies", method="POST", headers=headers), receive, send))

    assert [0] == taken[:1]


def head_is_counted_as_head(app: FastAPI) -> None:
    """The metrics have the method that was sent, although the route is GET's."""
    with client_of(app) as client:
        client.head("/v1/studies", headers=READER)

        assert 'method="HEAD",route="/v1/studies"' in client.get("/metrics", headers=READER).text


PROBES: dict[tuple[str, str], Callable[[FastAPI], None]] = {
    ("ReplyHeaders", "wrap"): pages_refusal_has_an_id,
    ("wrap", "Outcomes"): bug_of_a_page_is_a_page,
    ("Outcomes", "LoadShedding"): shed_write_is_counted,
    ("LoadShedding", "Access"): token_of_a_shed_write_is_not_looked_at,
    ("Access", "RateLimit"): token_is_limited,
    ("RateLimit", "CachedRecommendations"): cached_reply_is_limited,
    ("CachedRecommendations", "BodyLimit"): cached_reply_reads_no_body,
    ("BodyLimit", "Gate"): slow_body_takes_no_place,
}
FREE = ("Gate", "Heads")
"""Neighbours whose order has no effect."""
ONE_REQUEST: dict[str, Any] = {"rate_per_s": 0.001, "rate_burst": 1}


def application_of(pair: tuple[str, str], folder: Path) -> FastAPI:
    """Return an application with pages; where the rate is probed, a token has one request."""
    return application_with_pages(folder, **(ONE_REQUEST if "RateLimit" in pair else {}))


def test_all_neighbours_have_a_probe(tmp_path: Path) -> None:
    """A layer that is added or moved fails until the reason for its place is said."""
    assert [*PROBES, FREE] == list(pairwise(layers_of(application_with_pages(tmp_path))))


@pytest.mark.parametrize("pair", PROBES, ids="-".join)
def test_each_layer_stands_where_it_works(pair: tuple[str, str], tmp_path: Path) -> None:
    """The probes hold for the order that the application has."""
    PROBES[pair](application_of(pair, tmp_path))


@pytest.mark.parametrize("pair", PROBES, ids="-".join)
def test_swapped_neighbours_are_noticed(pair: tuple[str, str], tmp_path: Path) -> None:
    """Each probe fails for the application with its two layers swapped."""
    app = application_of(pair, tmp_path)
    place = layers_of(app).index(pair[0])
    app.user_middleware[place : place + 2] = reversed(app.user_middleware[place : place + 2])

    with pytest.raises(AssertionError):
        PROBES[pair](app)


def test_head_is_turned_into_get_innermost(tmp_path: Path) -> None:
    """Anywhere outside Outcomes it would be counted as GET."""
    head_is_counted_as_head(application_with_pages(tmp_path))
    moved = application_with_pages(tmp_path)
    moved.user_middleware.insert(0, moved.user_middleware.pop())

    with pytest.raises(AssertionError):
        head_is_counted_as_head(moved)
