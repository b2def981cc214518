# SPDX-License-Identifier: Apache-2.0
"""Authorization of every route: the application is walked, and a new route fails until it stands in the table."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.testclient import TestClient

from ringtune.service.api.access import MAX_LOOKUPS, Callers
from ringtune.service.api.authorization import declared_scopes
from ringtune.service.domain import Service
from ringtune.service.domain.values import TokenGrant
from ringtune.service.errors import Overloaded
from ringtune.service.settings import ServiceSettings
from ringtune.service.store import Database
from tests.contract.service.applications import ADMIN_SECRET, READ_SECRET, application, bearer
from tests.contract.service.requests import STUDY_BODY, UUIDS, result_body
from tests.contract.service.routes import OPEN, PAGES, PAGES_OPEN, SCOPES, path_of
from tests.contract.web.applications import application_with_pages
from tests.unit.service.api.asgi import ask, scope_of

HERE = "http://127.0.0.1"
ENDLESS = frozenset({"/v1/events", "/events"})


def walked(app: FastAPI) -> set[tuple[str, str]]:
    """Return (method, path template) of everything that the application's routers hold, whatever kind it is."""

    def routes(holder: object) -> Iterator[tuple[str, str]]:
        for route in getattr(holder, "routes", ()):
            included = getattr(route, "original_router", None)
            if included is not None:
                yield from routes(included)
            elif isinstance(route, APIRoute):
                yield from ((method, route.path) for method in route.methods or ())
            else:
                yield (type(route).__name__, str(getattr(route, "path", route)))
                yield from routes(route)

    return set(routes(app))


def api_routes(holder: object) -> Iterator[APIRoute]:
    """Yield the routes of an application, those of its routers included."""
    for route in getattr(holder, "routes", ()):
        if isinstance(route, APIRoute):
            yield route
        else:
            yield from api_routes(getattr(route, "original_router", route))


@pytest.fixture
def client(tmp_path: Path) -> Iterator[TestClient]:
    """An application with tokens, and a client of it."""
    with TestClient(application(tmp_path), base_url=HERE) as caller:
        yield caller


def test_the_table_has_every_route(tmp_path: Path) -> None:
    """The table has a row for every route, and a route for every row; mounts and pages count too."""
    assert OPEN | set(SCOPES) == walked(application(tmp_path))


def test_every_route_names_its_scope(tmp_path: Path) -> None:
    """All but the open ones, pages included; the scope is the one of the table, by `Security` alone."""
    declared = {
        (method, route.path): declared_scopes(route)
        for route in api_routes(application_with_pages(tmp_path))
        for method in route.methods or ()
    }

    expected = {place: (scope,) for place, scope in {**SCOPES, **PAGES}.items()}
    assert {**expected, **dict.fromkeys(OPEN | PAGES_OPEN)} == declared


@pytest.mark.parametrize(("secret", "expected"), [(READ_SECRET, 403), (ADMIN_SECRET, 200)])
def test_a_route_that_names_no_scope_is_for_admins(secret: str, expected: int, tmp_path: Path) -> None:
    """Deny by default: a forgotten declaration opens no route."""
    app = application(tmp_path)

    @app.get("/v1/forgotten")
    def forgotten() -> str:
        return "answered"

    with TestClient(app, base_url=HERE) as client:
        assert expected == client.get("/v1/forgotten", headers=bearer(secret)).status_code


def test_the_tables_have_every_page_too(tmp_path: Path) -> None:
    """An application with pages has the routes of one without them, and the pages'."""
    assert OPEN | PAGES_OPEN | set(SCOPES) | set(PAGES) == walked(application_with_pages(tmp_path))


def test_of_the_pages_only_the_sign_in_and_the_static_files_are_open(tmp_path: Path) -> None:
    """A path that looks like a static file's is none; a page's form needs its origin, and then a token."""
    app = application_with_pages(tmp_path)
    own = {"Origin": HERE}
    with TestClient(app, base_url=HERE, follow_redirects=False) as client:
        for url in app.state.pages.assets.urls:
            assert 200 == client.get(url).status_code, url
        for method, template in sorted(PAGES):
            for headers in (own, {**own, **bearer("wrong-secret-of-these-tests")}):
                reply = client.request(method, path_of(template), headers=headers)
                assert 401 == reply.status_code, (method, template)
        for path in ("/static/", "/static/../studies", "/static//x", "/sign-in/", "/Sign-in", "/nowhere"):
            assert 401 == client.get(path).status_code, path


def test_a_token_opens_the_pages_that_its_scope_says(tmp_path: Path) -> None:
    """A page without a declared scope would be an admin's."""
    own = {"Origin": HERE}
    with TestClient(application_with_pages(tmp_path), base_url=HERE, follow_redirects=False) as client:
        created = client.post("/v1/tokens", json={"name": "job", "scopes": ["report"]}, headers=bearer(ADMIN_SECRET))
        secrets = {"read": READ_SECRET, "report": created.json()["secret"], "admin": ADMIN_SECRET}

        for (method, template), needed in sorted(PAGES.items()):
            if template in ENDLESS:
                continue
            for granted, secret in secrets.items():
                reply = client.request(method, path_of(template), headers={**own, **bearer(secret)})
                is_refused = granted not in {needed, "admin"}
                assert is_refused == (reply.status_code == 403), (method, template, granted, reply.text[:300])


def test_without_a_token_the_open_routes_answer_and_no_other(client: TestClient) -> None:
    """The open routes answer without a token, with wrong tokens of various kinds, and on paths that lead nowhere."""
    no_tokens: tuple[dict[str, str], ...] = (
        {},
        bearer("wrong-secret-of-these-tests"),
        {"Authorization": f"Basic {ADMIN_SECRET}"},
        bearer(""),
    )

    for method, template in sorted(OPEN | set(SCOPES)):
        for headers in no_tokens:
            reply = client.request(method, path_of(template), headers=headers)
            assert (200 if (method, template) in OPEN else 401) == reply.status_code, (method, template, headers)
    for path in ("/", "/docs", "/v1", "/v1/", "/healthz/", "/healthz/../v1/studies", "//v1/studies", "/V1/studies"):
        assert 401 == client.get(path).status_code, path


def test_a_token_opens_the_routes_of_its_scope(client: TestClient) -> None:
    """A reader may not report, a reporter may not administer; admin may everything."""
    created = client.post("/v1/tokens", json={"name": "job", "scopes": ["report"]}, headers=bearer(ADMIN_SECRET))
    secrets = {"read": READ_SECRET, "report": created.json()["secret"], "admin": ADMIN_SECRET}

    for (method, template), needed in sorted(SCOPES.items()):
        if template in ENDLESS:
            continue
        for granted, secret in secrets.items():
            body: dict[str, Any] = {"json": {}} if method in {"PATCH", "POST", "PUT"} else {}
            reply = client.request(method, path_of(template), headers=bearer(secret), **body)
            is_refused = granted not in {needed, "admin"}
            assert is_refused == (reply.status_code == 403), (method, template, granted, reply.text)
            assert 401 != reply.status_code


def test_a_cached_recommendation_needs_the_scope_too(client: TestClient) -> None:
    """The fast path does not go around the checks."""
    created = client.post("/v1/tokens", json={"name": "job", "scopes": ["report"]}, headers=bearer(ADMIN_SECRET))
    path = f"/v1/recommendations?model_fingerprint={'b' * 64}&world_size=2"

    first, second = (client.get(path, headers=bearer(READ_SECRET)) for _ in range(2))
    refused = client.get(path, headers=bearer(created.json()["secret"]))

    assert (200, first.content) == (first.status_code, second.content)
    assert 403 == refused.status_code
    assert 401 == client.get(path).status_code
    assert "ringtune_cache_hits_total 1.0" in client.get("/metrics", headers=bearer(READ_SECRET)).text


def test_a_revoked_token_is_refused(client: TestClient) -> None:
    """A revoked token is refused once the cache's time is over."""
    created = client.post("/v1/tokens", json={"name": "x", "scopes": ["read"]}, headers=bearer(ADMIN_SECRET)).json()
    revoked = client.delete(f"/v1/tokens/{created['id']}", headers=bearer(ADMIN_SECRET))
    listed = client.get("/v1/tokens", headers=bearer(ADMIN_SECRET)).json()["items"]

    assert 204 == revoked.status_code
    assert [True] == [token["is_revoked"] for token in listed if token["id"] == created["id"]]
    assert 401 == client.get("/v1/studies", headers=bearer(created["secret"])).status_code


def test_an_operator_says_how_a_token_counts_and_deletes_its_reports(client: TestClient) -> None:
    """At creation and later; the list shows it, and the results are gone for everybody."""
    client.headers.update(bearer(ADMIN_SECRET))
    body = {"name": "team", "scopes": ["read", "report"], "has_many_jobs": True}
    created = client.post("/v1/tokens", json=body).json()
    team, address = bearer(created["secret"]), f"/v1/tokens/{created['id']}"
    study_id = client.post("/v1/studies", json=STUDY_BODY, headers=team).json()["id"]
    result = f"/v1/studies/{study_id}/trials/{UUIDS[0]}/result"
    client.put(result, json=result_body(UUIDS[1]), headers=team)

    changed = client.patch(address, json={"has_many_jobs": False}).json()
    listed = client.get("/v1/tokens").json()["items"]
    deleted = [client.delete(f"{address}/results").json() for _ in range(2)]

    assert (True, False) == (created["has_many_jobs"], changed["has_many_jobs"])
    assert [False] == [token["has_many_jobs"] for token in listed if token["id"] == created["id"]]
    assert [{"results": 1}, {"results": 0}] == deleted
    assert 0 == client.get(f"/v1/studies/{study_id}").json()["trials"]


def test_guesses_do_not_keep_out_known_callers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While made-up tokens take all places to look up, a token that was valid a moment ago is looked up again."""
    service = Service(Database.open(f"sqlite:///{tmp_path / 'service.sqlite3'}"))
    service.migrate()
    token, secret = service.tokens.create("job", ["read"])
    authenticate, clock, go_on = service.tokens.authenticate, [0.0], threading.Event()

    def slow_for_strangers(asked: str) -> TokenGrant | None:
        if asked != secret:
            go_on.wait(120)
        return authenticate(asked)

    monkeypatch.setattr(service.tokens, "authenticate", slow_for_strangers)

    async def find() -> str | None:
        callers = Callers(service, ServiceSettings.read(), lambda: clock[0])
        headers = [{b"authorization": f"Bearer {text}".encode()} for text in (secret, *map(str, range(MAX_LOOKUPS)))]
        await callers.find(headers[0])
        clock[0] = 100.0
        guesses = [asyncio.ensure_future(callers.find(guess)) for guess in headers[1:]]
        await asyncio.sleep(0)  # each of them has come to its look-up
        try:
            with pytest.raises(Overloaded):
                await callers.find({b"authorization": b"Bearer another"})
            return (await asyncio.wait_for(callers.find(headers[0]), 60)).token_id
        finally:
            go_on.set()
            await asyncio.gather(*guesses, return_exceptions=True)

    assert token.token_id == asyncio.run(find())
    service.close()


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([("host", "127.0.0.1:8470")], 200),
        ([("host", "localhost")], 200),
        ([("host", "[::1]:8470")], 200),
        ([("host", "localhost"), ("origin", "http://localhost:3000")], 200),
        ([("host", "evil.example")], 421),
        ([("host", "localhost.evil.example:8470")], 421),
        ([("host", "127.0.0.1.evil.example")], 421),
        ([("host", "127.0.0.1@evil.example")], 421),
        ([("host", "[::1")], 421),
        ([], 421),
        ([("host", "localhost"), ("origin", "https://evil.example")], 421),
        ([("host", "localhost"), ("origin", "null")], 421),
    ],
)
def test_without_tokens_loopback_is_open_to_this_machine_alone(
    headers: list[tuple[str, str]], expected: int, tmp_path: Path
) -> None:
    """A page that the browser loaded from elsewhere reaches no call, under whatever name it tries."""
    app = application(tmp_path, has_tokens=False)
    with TestClient(app):
        reply = asyncio.run(ask(app, scope_of("/v1/studies", headers=headers)))

    assert expected == reply.status


def test_the_first_token_closes_loopback(tmp_path: Path) -> None:
    """A service without tokens is open; a token that was revoked does not open it again."""
    with TestClient(application(tmp_path, has_tokens=False), base_url=HERE) as client:
        assert 200 == client.get("/v1/tokens").status_code

        created = client.post("/v1/tokens", json={"name": "operator", "scopes": ["admin"]}).json()

    with TestClient(application(tmp_path, has_tokens=False), base_url=HERE) as client:
        assert 401 == client.get("/v1/studies").status_code
        token = bearer(created["secret"])
        assert 204 == client.delete(f"/v1/tokens/{created['id']}", headers=token).status_code
        assert 401 == client.get("/v1/studies").status_code
